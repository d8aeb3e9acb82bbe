"""A replica that answers GET /metrics with anything, and pages of metrics that a broken one could write."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from hypothesis import strategies as st

from tests.damage.dice import Dice
from tests.damage.messages import mangled

Answer = Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]
"""Writes the whole answer, with its head."""


def sends(head: str, body: bytes = b"") -> Answer:
    """Return an answer that is sent at once."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return answer


def never_ends(head: str, part: bytes, seconds: float = 0, *, end: bytes = b"\r\n\r\n") -> Answer:
    """Return an answer that goes on, with a pause after each part. `end` ends the head."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head.replace("\n", "\r\n").encode() + end)
        while True:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(seconds)

    return answer


@contextlib.asynccontextmanager
async def listening(address: str, port: int, answer: Answer) -> AsyncIterator[list[bytes]]:
    """Answer each connection to an address. Yields the requests that arrived."""
    requests: list[bytes] = []
    open_connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_connections.append(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, address, port)
    try:
        yield requests
    finally:
        server.close()
        for writer in open_connections:
            writer.transport.abort()


def free_port_of(*addresses: str) -> int:
    """Return a port that is free on all these addresses."""
    while True:
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            port = 0
            for address in addresses:
                port = stack.enter_context(socket.create_server((address, port))).getsockname()[1]
            return port


_NUMBERS = ["0", "1", "90", "NaN", "+Inf", "-Inf", "-1", "1e308", "1e-320", "1e15", "0x10", "", "many", "9" * 400]
_NAMES = ["mcp_requests_in_flight", "mcp_requests_in_flight_max", "mcp_job_queue_depth", "mcp_jobs_running"]
_NAMES += ["mcp_job_queue_age_seconds", "mcp_replica_draining", "process_cpu_seconds_total", "mcp_requests_total"]
_NAMES += ["process_start_time_seconds", "mcp_event_loop_lag_seconds_bucket", "mcp_request_duration_seconds_bucket"]


def _label(dice: Dice) -> str:
    backslashes = dice.one_of(["\\", '\\"']) * dice.below(2000)
    method = dice.one_of(["tools/call", "tools/list", ""])
    return dice.one_of([f'le="{dice.one_of(_NUMBERS)}"', f'method="{method}"', f'tool="{backslashes}"', dice.text(20)])


def _line(dice: Dice) -> str:
    labels = "{" + ",".join(_label(dice) for _ in range(dice.below(6))) + "}" if dice.once_in(2) else ""
    return dice.one_of(_NAMES) + labels + dice.one_of([" ", "", "\t", "  "]) + dice.one_of(_NUMBERS)


@st.composite
def damaged_pages(draw: st.DrawFn, lines: int = 40) -> bytes:
    """Return a page with wrong, missing and repeated lines, with bytes that were changed.

    At most `lines` lines are different. Hypothesis refuses an input that needs too many
    random choices, so a test with many pages asks for short ones.
    """
    dice = Dice.drawn(draw)
    page = "\n".join(_line(dice) for _ in range(dice.below(lines + 1))).encode(errors="replace")
    page = b"\n".join([page] * (1 + dice.below(5)))
    for _ in range(dice.below(5)):
        page = mangled(dice, page)
    return page

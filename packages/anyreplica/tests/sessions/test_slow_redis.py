"""Tests of a Redis that answers late, because its node has little CPU: what waits for a person waits for Redis, too."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import until
from tests.calls import FULL, text
from tests.replicas import Fleet, Proxy, RedisServer, asking, running
from tests.sessions.client import AskedClient, said, start
from tests.sessions.resuming import greeted, resumed, sent
from tests.sessions.test_ask import answers

pytestmark = pytest.mark.needs("redis")

SECONDS = 2.5
"""Time by which the proxy delays each answer. Quick commands wait for at most one second."""
CONVERSATIONS = 12


class SlowProxy(Proxy):
    """A TCP proxy in front of Redis. While `seconds` is not 0, each part of an answer arrives that much later.

    The proxy delays the parts independently of each other, as a slow Redis does with commands of several connections.
    """

    def __init__(self, port: int) -> None:
        self.seconds = 0.0
        self._to = port
        super().__init__()

    @property
    def url(self) -> str:
        """The URL of Redis through the proxy."""
        return f"redis://127.0.0.1:{self.port}/0"

    async def _pass(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        redis, to_redis = await asyncio.open_connection("127.0.0.1", self._to)
        pumps = [
            asyncio.ensure_future(self._pump(client, to_redis, delayed=False)),
            asyncio.ensure_future(self._pump(redis, to_client, delayed=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for writer in (to_client, to_redis):
                writer.transport.abort()  # nobody waits for parts that are late
            await asyncio.sleep(0)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, delayed: bool) -> None:
        def write(part: bytes) -> None:
            if not sink.transport.is_closing():
                sink.write(part)

        with contextlib.suppress(OSError):
            while part := await source.read(65536):
                if delayed and self.seconds:
                    self._loop.call_later(self.seconds, write, part)
                else:
                    write(part)


@pytest.fixture
def slow(redis_server: RedisServer) -> Iterator[SlowProxy]:
    """A proxy in front of the Redis of a test. It forwards all data at once, until the test makes it slow."""
    with contextlib.closing(SlowProxy(redis_server.port)) as proxy:
        yield proxy


@contextlib.contextmanager
def serving(folder: Path, slow: SlowProxy, **settings: str) -> Iterator[Fleet]:
    """Run two replicas. At the end, no line of their logs may say that an exception was unexpected."""
    with running(folder, 2, REDIS_URL=slow.url, **settings) as fleet:
        yield fleet
    for replica in fleet.replicas:
        assert " - Stopped\n" in replica.output
        wrong = re.findall(r".*(?:request handler raised|never retrieved|Traceback).*", replica.output)
        assert not wrong, replica.output


@pytest.mark.parametrize("sessions", [pytest.param("ask", marks=pytest.mark.slow), "full"])
def test_conversations_and_ends_of_sessions_wait_for_a_slow_redis(
    tmp_path: Path, slow: SlowProxy, sessions: str
) -> None:
    """Redis answers after 2.5 s: every `await ctx.elicit` gets its answer from another replica, and sessions end."""
    packs = "server,tests.packs.asking"
    with serving(tmp_path, slow, HANDSHAKE_SESSIONS=sessions, MCP_COMPONENTS=packs) as fleet:
        clients = [start(fleet.url) for _ in range(CONVERSATIONS)]

        def converse(client: AskedClient) -> str:
            try:
                text = said(client.call(fleet.urls, "greet", answers))
                return f"{text} {client.ended(fleet.urls[1]).status_code}"
            except (AssertionError, KeyError) as error:
                return f"failed: {error!s:.200}"

        slow.seconds = SECONDS
        with ThreadPoolExecutor(CONVERSATIONS) as threads:
            found = list(threads.map(converse, clients))
        assert found == ["Hello, Ada! 204"] * CONVERSATIONS

        slow.seconds = 0
        until(
            lambda: {client.ended(fleet.urls[0]).status_code for client in clients} == {404},
            "Redis answers fast again, and the other replica knows that all sessions have ended",
        )


@pytest.mark.slow
def test_a_client_resumes_its_call_while_redis_is_slow(tmp_path: Path, slow: SlowProxy) -> None:
    """A client that lost its connection gets the question again at another replica, and then the result."""
    settings = {"HANDSHAKE_SESSIONS": "full", "MCP_COMPONENTS": "tests.packs.asking", "SHUTDOWN_GRACE_SECONDS": "1"}
    with serving(tmp_path, slow, **settings) as fleet:
        client = start(fleet.url)
        for urls in (fleet.urls, fleet.urls[::-1]):  # opens connections while Redis is fast
            assert said(client.call(urls, "greet", answers)) == "Hello, Ada!"
        slow.seconds = SECONDS
        with sent(client, fleet.urls[0], "greet") as events:
            first, _ = next(events)
            assert first
        with resumed(client, fleet.urls[1], first) as (reply, events):
            assert reply.status_code == 200
            with_data = (event for event in events if event[1])
            question = next(with_data)
            assert "elicitation/create" in question[1]
            greeted(client, fleet.urls[1], question, with_data)


_ELICITS: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
STATELESS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "remember": ({"value": "tea"}, {}, "tea"),
    "echo": ({"message": "tea"}, FULL, "tea"),
    "own": ({"mark": "{number}"}, {}, "1"),
    "touch": ({"uri": "a://b"}, {}, "Told."),
    "transfer": ({"amount": 3}, {}, "accept: 3"),
    "export_data": ({"rows": 1}, {}, "The job queue cannot be reached; retry in 2 s."),
}
"""Tools that use Redis: their arguments, members of `_meta`, and the text of the result. Jobs need a fast Redis."""


def called(url: str, name: str, number: int, seconds: float) -> str:
    """Call a tool with the protocol 2026-07-28, answer its question, and return its text; empty if the time is over."""
    arguments, meta, _ = STATELESS[name]
    arguments = {key: f"{number}" if value == "{number}" else value for key, value in arguments.items()}
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    while True:
        try:
            with httpx.Client(verify=False, timeout=seconds) as client:
                reply = client.post(f"{url}/mcp", **asking("stateless", "tools/call", params, **_ELICITS, **meta))
        except httpx.TimeoutException:
            return ""
        assert reply.status_code == 200, reply.text
        result = reply.json()["result"]
        if "inputRequests" not in result:
            return text(result)
        answer = {"action": "accept", "content": {"sure": True}}
        params |= {"requestState": result["requestState"], "inputResponses": {"sure": answer}}


def test_calls_of_the_stateless_protocol_do_not_fail(tmp_path: Path, slow: SlowProxy) -> None:
    """Redis answers after 2.5 s: calls of 2026-07-28 succeed, a job is refused, and clients that leave do no harm."""
    packs = "server,tests.packs.asking,tests.packs.state,tests.packs.cached"
    settings = {"HANDSHAKE_SESSIONS": "full", "MCP_COMPONENTS": packs, "RUNS": str(tmp_path / "runs")}
    expected = {name: said for name, (_, _, said) in STATELESS.items()}
    with serving(tmp_path, slow, JOBS_URL=slow.url, RATE_LIMIT="1000/s", **settings) as fleet:
        slow.seconds = SECONDS
        with ThreadPoolExecutor(3 * len(STATELESS)) as threads:
            for number in range(3):
                patient = {name: threads.submit(called, fleet.url, name, number, 60) for name in STATELESS}
                for name in STATELESS:  # more clients, which leave while the replica waits for Redis
                    threads.submit(called, fleet.url, name, 10 + number, 0.4 * (number + 1))
                found = {name: call.result() for name, call in patient.items()}
                assert found == expected
        slow.seconds = 0
        until(lambda: called(fleet.url, "remember", 0, 60) == "tea", "the replicas still serve")

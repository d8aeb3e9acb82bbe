"""The processes of one replica (`WORKERS`) ask each other for their metrics.

Each process listens on a Unix socket in a folder that only their user can open. It writes one text to each client, and
closes the connection.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from anyreplica.process.replica import process_number

folder = ""
"""The folder of the sockets. Empty: this process is a whole replica."""

_SECONDS = 2.0
"""Time limit for the answer of another process. A process that is blocked for longer is missing."""


@asynccontextmanager
async def answering(text: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
    """Inside the block, answer the other processes with a text."""
    if not folder:
        yield
        return

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await text())
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_unix_server(answer, Path(folder, process_number()))
    async with server:
        yield


async def ask_others() -> dict[str, bytes]:
    """Return the texts of the other processes by their numbers. A process that does not answer is missing."""
    others = _others()
    texts = await asyncio.gather(*(_ask(each) for each in others))
    return {other.name: text for other, text in zip(others, texts, strict=True) if text}


async def _ask(path: Path) -> bytes:
    """Return the text of a process, or nothing if it does not answer. Delete the socket of a process that has ended."""
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                return await reader.read()
            finally:
                writer.close()
    except ConnectionRefusedError:
        _delete(path)
    except OSError:  # TimeoutError is one
        pass
    return b""


def _others() -> list[Path]:
    return [each for each in Path(folder).iterdir() if each.name != process_number()] if folder else []


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)

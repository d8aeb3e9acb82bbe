"""The processes of one replica (`WORKERS`) ask each other for their metrics.

Each process listens on a Unix socket in a folder that only their user can open. It writes one page to each client, and
closes the connection.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from anyreplica.process.listening import release
from anyreplica.process.replica import process_number

folder = ""
"""The folder of the sockets. Empty: this process is a whole replica."""

_SECONDS = 3.0
"""Time limit for the page of another process. A process that is blocked for longer is missing."""

_FRESH_SECONDS = 1.0
"""Age up to which a page is given out again. Whoever may read the metrics can ask as often as they like."""


@asynccontextmanager
async def answering_siblings(page: Callable[[], Awaitable[bytes]]) -> AsyncIterator[None]:
    """Inside the block, answer the other processes with a page."""
    if not folder:
        yield
        return
    loop = asyncio.get_running_loop()
    fresh, made_at, making = b"", 0.0, asyncio.Lock()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal fresh, made_at
        with suppress(OSError):  # the process that asked has ended, or does not wait any longer
            async with making:
                if not fresh or loop.time() - made_at > _FRESH_SECONDS:
                    fresh, made_at = await page(), loop.time()
            writer.write(fresh)
            await writer.drain()
        writer.close()

    # A socket refuses connections until it listens. So it gets its name, by which others find it, only after that.
    place = Path(folder, f".{process_number()}")
    async with await asyncio.start_unix_server(answer, place) as server:
        release(server.sockets)
        _rename(place, process_number())
        yield


async def ask_siblings() -> dict[str, bytes]:
    """Return the pages of the other processes by their numbers. A process that does not answer is missing."""
    others = _others()
    pages = await asyncio.gather(*(_ask(each) for each in others))
    return {other.name: page for other, page in zip(others, pages, strict=True) if page}


async def _ask(path: Path) -> bytes:
    """Return the page of a process, or nothing if it does not answer. Delete the socket of a process that has ended."""
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
    found = Path(folder).iterdir() if folder else ()
    return [each for each in found if each.name.isdecimal() and each.name != process_number()]


def _rename(path: Path, name: str) -> None:
    path.rename(path.with_name(name))


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)

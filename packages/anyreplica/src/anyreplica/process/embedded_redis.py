"""A stand-in for Redis in this process, on a Unix socket, for local replicas on a machine without `redis-server`.

The commands and their data are those of fakeredis. Its own TCP server ends a connection after each error reply, listens
on TCP only, and polls each connection a hundred times per second, so this module has a server of its own.
"""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Iterable
from typing import Any

logger = logging.getLogger(__name__)

_CHUNK = 64 * 1024
_CLOSE_SECONDS = 2.0
_SWEEP_SECONDS = 30.0
"""fakeredis deletes an expired key when somebody reads the key. Nobody reads most of our keys again."""


class EmbeddedRedis:
    """A server that speaks the protocol of Redis (RESP2) in a thread of its own, until `close`.

    Args:
        path: Path of the Unix socket. The folder must be private, because there is no password.
    """

    def __init__(self, path: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(128)  # clients may connect from now on; the imports of the thread take half a second
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="embedded-redis", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> str | None:
        """Why it has ended; None while it runs."""
        return None if self._thread.is_alive() else "its thread has failed"

    def close(self) -> None:
        """Close all connections and end the thread."""
        with contextlib.suppress(RuntimeError):  # the thread has failed and closed its loop
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        # A client that leaves in the middle of a command may make a task fail. That concerns nobody else.
        self._loop.set_exception_handler(lambda _, context: logger.debug("%s", context))
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        from fakeredis import FakeAsyncRedis, FakeServer  # noqa: PLC0415  # only this thread needs the slow import

        data, connections = FakeServer(version=(7,)), dict[asyncio.Task[None], asyncio.StreamWriter]()
        admin = FakeAsyncRedis(server=data)

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(_answer(data, admin, reader, writer))
            connections[task] = writer
            task.add_done_callback(connections.pop)

        server = await asyncio.start_unix_server(accept, sock=self._listener, limit=_CHUNK)
        sweeper = self._loop.create_task(_sweep(admin))
        await self._stop.wait()
        server.close()
        sweeper.cancel()
        for writer in connections.values():
            writer.close()  # its task then reads the end of the connection, and ends
        await asyncio.wait({sweeper, *connections}, timeout=_CLOSE_SECONDS)


async def _answer(data: Any, admin: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection: pass its commands to fakeredis, and write the replies and published messages."""
    from fakeredis import FakeAsyncRedisConnection  # noqa: PLC0415
    from redis.exceptions import RedisError  # noqa: PLC0415

    client = FakeAsyncRedisConnection(server=data, protocol=2)
    await client.connect()  # type: ignore[no-untyped-call]
    await client.send_command("CLIENT", "ID")
    identity = await client.read_response()

    async def reply() -> None:
        while True:
            try:
                value = await client.read_response(disable_decoding=True)
            except RedisError as error:
                value = error
            writer.write(encoded(value))
            await writer.drain()

    replies = asyncio.create_task(reply())
    try:
        with contextlib.suppress(OSError, RedisError):
            while commands := await reader.read(_CHUNK):
                await client.send_packed_command(commands, check_health=False)
    finally:
        # fakeredis keeps what a closed connection has subscribed to, and its blocked read would take the next message.
        await admin.client_unblock(identity)
        await admin.client_kill_filter(_id=identity)
        replies.cancel()
        await asyncio.gather(replies, return_exceptions=True)
        await client.disconnect()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _sweep(admin: Any) -> None:
    """Delete expired keys again and again."""
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        await admin.dbsize()  # to count the keys, fakeredis deletes those that have expired


def encoded(value: Any) -> bytes:
    """Return a reply of fakeredis as RESP2."""
    from redis.exceptions import NoScriptError  # noqa: PLC0415

    match value:
        case None:
            return b"$-1\r\n"
        case Exception():
            # redis-py has removed the first word of the error if the word is ERR or NOSCRIPT.
            text = " ".join(str(value).split()) or "ERR"
            code = "NOSCRIPT " if isinstance(value, NoScriptError) else "" if text.split()[0].isupper() else "ERR "
            return f"-{code}{text}\r\n".encode()
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%s\r\n" % (len(value), value)
        case str() | float():
            return encoded(f"{value:.17g}".encode() if isinstance(value, float) else value.encode())
        case dict():
            return _array([part for pair in value.items() for part in pair])
        case _:
            return _array(list(value))


def _array(values: Iterable[Any]) -> bytes:
    parts = [encoded(value) for value in values]
    return b"*%d\r\n%s" % (len(parts), b"".join(parts))

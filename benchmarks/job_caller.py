"""Who submits jobs over `/jobs`, and asks what has become of them: one kept connection to one replica.

On the load test's own connection, since a client that takes milliseconds for a call would be what is measured.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
from mcp_swarm.loadtest.connection import Connection, ConnectionEnded

from benchmarks.load import LoadError

_PATIENCE = 120.0
"""Seconds until a job must have a result."""
_ANSWER_SECONDS = 30.0


class CallerError(LoadError):
    """A reply was wrong, or there was none; `str()` says which in one line."""


class Caller:
    """One connection, with one request at a time on its way."""

    def __init__(self, connection: Connection, port: int) -> None:
        self._connection = connection
        self._port = port

    async def submit(self, job: str, params: Mapping[str, Any], key: str = "") -> str:
        """Submit a job, with an Idempotency-Key if one is given; returns its id."""
        _, reply = await self._ask("POST", "/jobs", 202, body=orjson.dumps({"job": job, "params": params}), key=key)
        identity: str = reply["id"]
        return identity

    async def status(self, identity: str) -> str:
        """A job's state."""
        _, reply = await self._ask("GET", f"/jobs/{identity}/status", 200)
        state: str = reply["status"]
        return state

    async def result(self, identity: str, pause: float) -> Any:
        """A job's result as soon as there is one, asked for so many seconds after every reply without."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            status, reply = await self._ask("GET", f"/jobs/{identity}/result", 200, 202)
            if status == 200:
                return reply["result"]
            await asyncio.sleep(pause)
        raise CallerError(f"a job has no result within {_PATIENCE:g} s")

    async def _ask(self, method: str, path: str, *right: int, body: bytes = b"", key: str = "") -> tuple[int, Any]:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        if key:
            head += f"Idempotency-Key: {key}\r\n"
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                reply = await self._connection.send(head.encode() + b"\r\n" + body)
        except (ConnectionEnded, TimeoutError) as error:
            raise CallerError(f"{method} {path}: {str(error) or 'no reply'}") from error
        if reply.status not in right:
            raise CallerError(f"{method} {path}: HTTP {reply.status}: {reply.body.decode(errors='replace'):.200}")
        return reply.status, orjson.loads(reply.body)


@asynccontextmanager
async def calling(port: int) -> AsyncIterator[Caller]:
    """A caller of the replica on a port of 127.0.0.1."""
    try:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    except OSError as error:
        raise CallerError(f"no connection to port {port}: {error}") from error
    try:
        yield Caller(connection, port)
    finally:
        connection.close()

"""A caller that submits jobs to `/jobs` over one kept connection.

The caller uses the load test's class `Connection`, because an HTTP library that needs milliseconds per call would
dominate the figures.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from anyreplica.load.connection import Connection, ConnectionEnded
from benchmarks.load import LoadError

_PATIENCE = 120.0
"""Seconds until a job must have a result."""
_ANSWER_SECONDS = 30.0


class Caller:
    """One connection to a replica, with one request at a time."""

    def __init__(self, connection: Connection, port: int) -> None:
        self._connection = connection
        self._port = port

    async def submit(self, job: str, params: Mapping[str, Any], key: str = "") -> str:
        """Submit a job, with an Idempotency-Key unless `key` is empty, and return the job's id."""
        _, reply = await self._ask("POST", "/jobs", 202, body=orjson.dumps({"job": job, "params": params}), key=key)
        return str(reply["id"])

    async def status(self, identity: str) -> str:
        """Return the state of a job."""
        _, reply = await self._ask("GET", f"/jobs/{identity}/status", 200)
        return str(reply["status"])

    async def result(self, identity: str, pause: float) -> Any:
        """Return the result of a job, with a pause in seconds between two requests for it."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            status, reply = await self._ask("GET", f"/jobs/{identity}/result", 200, 202)
            if status == 200:
                return reply["result"]
            await asyncio.sleep(pause)
        raise LoadError(f"a job has no result within {_PATIENCE:g} s")

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
            raise LoadError(f"{method} {path}: {str(error) or 'no reply'}") from error
        if reply.status not in right:
            raise LoadError(f"{method} {path}: HTTP {reply.status}: {reply.body.decode(errors='replace'):.200}")
        return reply.status, orjson.loads(reply.body)


@asynccontextmanager
async def calling(port: int) -> AsyncIterator[Caller]:
    """Connect a caller to a port of 127.0.0.1."""
    try:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    except OSError as error:
        raise LoadError(f"no connection to port {port}: {error}") from error
    try:
        yield Caller(connection, port)
    finally:
        connection.close()

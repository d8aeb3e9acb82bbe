"""A request and its reply, on the load test's own connection."""

import asyncio

from mcp_swarm.loadtest.connection import Connection, ConnectionEnded, HttpReply

from benchmarks.expectation import fault
from benchmarks.flood.messages import WELCOME
from benchmarks.load import LoadError

REFUSED = 503
"""How a server says that it takes no more clients."""

_PATIENCE = 10.0
"""Seconds for a reply."""


async def connect(port: int) -> Connection:
    """A connection to a port of 127.0.0.1.

    Raises:
        LoadError: there is none.
    """
    try:
        _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    except OSError as error:
        raise LoadError(f"no connection to port {port}: {error}") from error
    return connection


async def send(connection: Connection, request: bytes) -> HttpReply:
    """The reply to a request; without one the connection is closed.

    Raises:
        LoadError: there is none.
    """
    try:
        async with asyncio.timeout(_PATIENCE):
            return await connection.send(request)
    except TimeoutError:
        connection.close()
        raise LoadError(f"no reply within {_PATIENCE:g} s") from None
    except ConnectionEnded as error:
        raise LoadError(str(error)) from error


def unwelcome(reply: HttpReply, *, sessions: bool) -> str:
    """What is wrong with a reply to `initialize`, in words; empty if nothing is.

    Args:
        sessions: whether it must open a session; else it must not.
    """
    if wrong := fault(WELCOME, b"%d" % reply.status, reply.body):
        return wrong
    if bool(reply.session) is not sessions:
        return f"wrong reply: it opens {'no' if sessions else 'a'} session"
    return ""

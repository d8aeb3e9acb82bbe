"""Clients who come alone, one after the other, and close what was opened for them."""

from benchmarks.flood.exchange import REFUSED, connect, send, unwelcome
from benchmarks.flood.messages import INITIALIZE, goodbye
from benchmarks.load import LoadError


async def newcomers(port: int, count: int, *, sessions: bool) -> int:
    """How many of so many are refused.

    Raises:
        LoadError: one got neither a right reply nor a 503, or none.
    """
    refused = 0
    for _ in range(count):
        connection = await connect(port)
        try:
            reply = await send(connection, INITIALIZE)
            if reply.status == REFUSED:
                refused += 1
            elif wrong := unwelcome(reply, sessions=sessions):
                raise LoadError(f"a newcomer: {wrong}")
            elif sessions and (status := (await send(connection, goodbye(reply.session))).status) != 200:
                raise LoadError(f"a newcomer who leaves: HTTP {status}")
        finally:
            connection.close()
    return refused

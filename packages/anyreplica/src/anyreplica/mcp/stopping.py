"""The end of a call that this replica does not finish: it stops, or another replica runs the call."""

import asyncio
from contextlib import suppress

from anyreplica.http.access_log import FAILED, FAULT
from anyreplica.http.in_flight import UNAVAILABLE
from anyreplica.http.refusal import ClientGone, Refused, send_refusal
from anyreplica.http.responses import error_response
from anyreplica.mcp.call import Call

_GIVE_UP_SECONDS = 1.0
"""Time limit for giving the call to another replica, in seconds. Docker kills a replica that takes longer to stop."""


async def answer_cancelled(call: Call | None) -> None:
    """Answer a call that was cancelled because the replica stops.

    Do nothing if there is no call, or if another replica takes it over.
    """
    if call is None:
        return
    if call.events is not None:
        with suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                if await call.events.give_up():
                    return
    call.scope[FAILED] = FAULT
    identity, text = call.request.id, "The server is stopping and has cancelled the call; retry now."
    # RuntimeError: the reply was already being sent. ClientGone: another replica has taken over the call.
    with suppress(RuntimeError, ClientGone):
        if call.streaming:
            await call.finish(503, error_response(identity, UNAVAILABLE, text))
        else:
            refused = Refused(503, text, code=UNAVAILABLE, identity=identity, headers={"Retry-After": "1"})
            await send_refusal(call.scope, call.send, refused)


async def let_go(call: Call | None) -> None:
    """End the event stream of a call that this replica no longer runs. None: the request had no call."""
    if call is not None:
        await call.let_go()

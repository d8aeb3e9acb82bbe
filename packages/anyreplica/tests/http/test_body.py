"""Tests of the reader of request bodies and its limits."""

import asyncio

import pytest
from starlette.types import Message, Receive

from anyreplica.http.limits import Body, InFlight, Memory, replay
from anyreplica.http.responses import ClientGone, Refused

pytestmark = pytest.mark.anyio


def sending(*messages: Message) -> Receive:
    """Return a `receive` that gives these messages and fails the test if more are requested."""
    pending = iter(messages)

    async def receive() -> Message:
        return next(pending)

    return receive


def chunk(body: bytes, *, more: bool) -> Message:
    """Return the ASGI message of a part of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


def body(most: int = 5, seconds: float = 10, at_once: int = 2) -> Body:
    """Return a reader of bodies with small limits."""
    return Body(most, seconds, 100_000, InFlight(at_once), Memory(2**20))


async def test_chunks_are_joined_up_to_the_limit() -> None:
    """The reader joins the chunks of a body whose size is exactly the limit."""
    receive = sending(chunk(b"abc", more=True), chunk(b"de", more=False))
    assert await body().read(receive, b"5") == b"abcde"
    assert await body().read(sending(chunk(b"abcde", more=False)), b"5") == b"abcde"
    assert await body().read(sending(chunk(b"", more=False)), None) == b""


async def test_a_body_beyond_the_limit_is_refused_early() -> None:
    """The reader refuses a body by its declared length, or at the first chunk that exceeds the limit."""
    whole, first = (sending(chunk(b"abcdef", more=more)) for more in (False, True))
    for receive, declared in ((sending(), b"6"), (first, None), (whole, None)):
        with pytest.raises(Refused, match="the limit is 5 bytes") as refused:
            await body().read(receive, declared)
        assert (refused.value.status, refused.value.headers) == (413, {"Connection": "close"})


async def test_a_body_that_takes_too_long() -> None:
    """The reader refuses a body with 408 if the rest does not arrive in time."""

    async def receive() -> Message:
        if started:
            await asyncio.Event().wait()
        started.append(True)
        return chunk(b"a", more=True)

    started: list[bool] = []
    reader = body(seconds=0.05)
    with pytest.raises(Refused, match="did not arrive within") as refused:
        await reader.read(receive, None)
    assert refused.value.status == 408
    assert reader.in_flight.count == 0


async def test_slow_bodies_are_limited_in_number() -> None:
    """The reader refuses a slow body beyond the limit with 503, but accepts a body that is complete at once."""

    async def receive_part() -> Message:
        return chunk(b"a", more=True)

    reader = body(at_once=1)
    parts = asyncio.Queue[Message]()
    await parts.put(chunk(b"a", more=True))
    slow = asyncio.create_task(reader.read(parts.get, None))
    await asyncio.sleep(0)
    assert reader.in_flight.count == 1
    with pytest.raises(Refused) as refused:
        await reader.read(receive_part, None)
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "1"})
    assert await reader.read(sending(chunk(b"ab", more=False)), b"2") == b"ab"
    slow.cancel()
    await asyncio.wait({slow})
    assert reader.in_flight.count == 0


async def test_a_client_that_disconnects_early() -> None:
    """The reader raises `ClientGone` if the client disconnects before its body is complete."""
    with pytest.raises(ClientGone):
        await body().read(sending(chunk(b"a", more=True), {"type": "http.disconnect"}), None)


async def test_a_replay_is_followed_by_the_next_message() -> None:
    """`replay` returns the body and then the next message, with which the SDK notices a disconnect."""

    receive = replay(b"abc", sending({"type": "http.disconnect"}))
    assert [await receive(), await receive()] == [chunk(b"abc", more=False), {"type": "http.disconnect"}]

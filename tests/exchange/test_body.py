"""Reading a body within a bound."""

import asyncio

import pytest
from starlette.types import Message, Receive

from server.exchange.body import read, replay
from server.exchange.errors import ClientGone, Refused


def sending(*messages: Message) -> Receive:
    """A `receive` that gives these messages, and fails the test if asked for more."""
    pending = iter(messages)

    async def receive() -> Message:
        return next(pending)

    return receive


def chunk(body: bytes, *, more: bool) -> Message:
    """Part of a body."""
    return {"type": "http.request", "body": body, "more_body": more}


def test_chunks_are_joined_up_to_the_limit() -> None:
    """A body of exactly the limit is taken."""
    assert asyncio.run(read(sending(chunk(b"abc", more=True), chunk(b"de", more=False)), b"5", 5)) == b"abcde"


def test_too_much_is_noticed_before_it_is_read() -> None:
    """By what is announced, or with the chunk that goes over."""
    with pytest.raises(Refused, match="larger than the 5 bytes"):
        asyncio.run(read(sending(), b"6", 5))
    with pytest.raises(Refused, match="larger than the 5 bytes"):
        asyncio.run(read(sending(chunk(b"abcdef", more=True)), None, 5))


def test_a_caller_that_hangs_up() -> None:
    """Before its body is complete."""
    with pytest.raises(ClientGone):
        asyncio.run(read(sending(chunk(b"a", more=True), {"type": "http.disconnect"}), None, 5))


def test_a_replay_is_followed_by_what_comes_next() -> None:
    """The SDK waits for the disconnect while a call runs."""

    async def scenario() -> list[Message]:
        receive = replay(b"abc", sending({"type": "http.disconnect"}))
        return [await receive(), await receive()]

    assert asyncio.run(scenario()) == [chunk(b"abc", more=False), {"type": "http.disconnect"}]

"""Tests of the store of events: in any order of events, a call has one owner, and only the owner goes on with it."""

import contextlib
import secrets
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from anyreplica.features.sessions.redis_events import RedisEvents
from tests.replicas import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]

OWNERS = ("", "one", "two")
"""The names of two replicas, and the name that stands for no owner."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "end", "wait", "leave", "give up", "give up with round", "take over"]),
        st.sampled_from(OWNERS[1:]),
        st.sampled_from(OWNERS),
    ),
    max_size=12,
)


@dataclass
class Model:
    """What the store must know of a call."""

    owner: str = "one"
    count: int = 0
    is_whole: bool = False
    round: str = ""
    left: int = -1
    """The number of the last round that the call has left."""

    def allows(self, owner: str) -> bool:
        """Return whether a replica may change the call."""
        return owner == self.owner and not self.is_whole


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
async def test_only_the_owner_changes_a_call(redis: RedisServer, steps: list[tuple[str, str, str]]) -> None:
    """The store behaves like the model, whichever replica does what."""
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(Redis.from_url(redis.url))
        store, stream, model = RedisEvents(client, "test", 60, "test:wakeups"), secrets.token_hex(8), Model()
        await store.begin(stream, "session", "one", "7")
        for number, (step, owner, lost) in enumerate(steps):
            await check(store, stream, model, step, owner, lost, number)
        part = await store.read(stream, "session", 0)
        assert part is not None
        assert (part.owner, part.is_whole, len(part.events)) == (model.owner, model.is_whole, model.count)
        assert await store.read(stream, "another session", 0) is None


async def check(store: RedisEvents, stream: str, model: Model, step: str, owner: str, lost: str, number: int) -> None:
    """Do a step with the store and with the model, and compare."""
    allowed, sealed = model.allows(owner), f"round {number}"
    if step in ("append", "end"):
        model.count += allowed
        model.is_whole = model.is_whole or (allowed and step == "end")
        for _ in range(2):  # the second time, as after a lost reply
            written = await store.append(stream, owner, b"event", sealed, 100_000, last=step == "end", delivered=False)
            assert written.number == (model.count if allowed else 0)
            allowed = model.allows(owner)
    elif step == "wait":
        model.round = sealed if allowed else model.round
        assert await store.wait_in_round(stream, owner, sealed, number) == allowed
        assert await store.wait_in_round(stream, owner, "late", model.left) == allowed, "and it has no effect"
    elif step == "leave":
        model.round, model.left = ("", number) if allowed else (model.round, model.left)
        assert await store.end_round(stream, owner, number) == allowed
    elif step in ("give up", "give up with round"):
        if allowed and step == "give up with round":
            model.round = model.round or sealed
        if allowed and model.round:
            model.owner = ""
        said = sealed if step == "give up with round" else "late"
        asked = number if step == "give up with round" else model.left
        assert await store.hand_over(stream, owner, said, asked) == (not model.allows(owner))
    else:
        taken = model.round if model.allows(lost) else None
        model.owner = owner if taken else model.owner
        assert await store.take_over(stream, lost, owner) == taken

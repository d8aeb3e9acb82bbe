"""Tests of the counters behind the limits: shares of callers, entries that expire, and the bytes of kept calls."""

import time
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.components.call_limits import Pauses
from anyreplica.features.sessions.event_store import FOREIGN, UNKNOWN, LocalEvents
from anyreplica.features.sessions.resume_bytes import EVENT_BYTES, ResumeBytes
from anyreplica.features.sessions.session import WaitingCall, WaitingCalls
from anyreplica.http.limits import InFlight, Memory, Shares
from anyreplica.mcp.call import ClientRequestError
from anyreplica.shared import expiring
from anyreplica.shared.expiring import Expiring
from anyreplica.shared.notifier import Notifier

pytestmark = pytest.mark.anyio

MOST = 1 << 20
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "keep", "remove", "pass"]), st.sampled_from("abc"), st.integers(1, 9)),
    max_size=40,
)


def test_one_caller_gets_half() -> None:
    """One caller cannot use up a limit, and nothing stays of a caller that has given all back."""
    shares = Shares(10)
    shares.add("one", 5)
    assert (shares.room("one"), shares.room("two")) == (0, 5)
    shares.add("two", 5)
    assert shares.room("three") == 0
    for caller in ("one", "two"):
        shares.add(caller, -5)
    assert shares.used == 0
    assert shares._by_caller == {}


@given(STEPS)
def test_entries_expire(steps: list[tuple[str, str, int]]) -> None:
    """The dictionary behaves like a model that looks at each entry, and forgets nothing in its heap."""
    clock, model = SimpleNamespace(now=0.0), dict[str, tuple[int, float]]()
    expired, gone = list[int](), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiring, "time", SimpleNamespace(monotonic=lambda: clock.now))
        found: Expiring[int] = Expiring(expired.append)
        for number, (step, name, seconds) in enumerate(steps):
            if step == "add":
                if name in model:
                    gone.append(model[name][0])
                model[name] = number, clock.now + seconds
                found.add(name, number, seconds)
            elif step == "keep":
                found.keep(name, seconds)
                if name in model:
                    model[name] = model[name][0], clock.now + seconds
            elif step == "remove":
                found.remove(name)
                if name in model:
                    gone.append(model.pop(name)[0])
            else:
                clock.now += seconds
                found.expire()
                over = [each for each, (_, expires) in model.items() if expires < clock.now]
                gone += [model.pop(each)[0] for each in over]
            assert sorted(expired) == sorted(gone)
            assert len(found) == len(model)
            for each, (value, _) in model.items():
                assert found.get(each) == value
        clock.now += 100
        found.expire()
        assert len(found) == 0
        assert found._heap == []


async def test_a_call_does_not_wait_for_abandoned_calls() -> None:
    """The begin of a call takes as long with 50,000 abandoned calls as with none."""
    store, times = LocalEvents(60, Notifier()), []
    for first in range(0, 51_000, 1000):
        began = time.process_time()
        for number in range(first, first + 1000):
            await store.begin(f"{number}", "session", "owner", "7")
        times.append(time.process_time() - began)
    assert min(times[-5:]) < 20 * min(times[:5]), "not in proportion to the calls"


async def test_the_store_in_memory_drops_the_oldest_events() -> None:
    """The numbers of events stay, and a reader sees how many events were dropped."""
    store, each = LocalEvents(60, Notifier()), 100 + EVENT_BYTES
    await store.begin("a", "mine", "owner", "7")
    for number in range(1, 6):
        written = await store.append("a", "owner", b"%d" % number * 100, "", 3 * each, last=False, delivered=False)
        assert written == (number, min(number, 3) * each)
    part = await store.read("a", "mine", 0)
    assert part is not None
    assert (part.dropped, [event[:1] for event in part.events]) == (2, [b"3", b"4", b"5"])
    assert await store.append("a", "owner", b"6" * 1000, "", 3 * each, last=True, delivered=False) == (6, 0)
    assert (await store.append("a", "owner", b"7", "", each, last=True, delivered=False)).number == FOREIGN
    assert (await store.append("b", "owner", b"1", "", each, last=True, delivered=False)).number == UNKNOWN


def test_kept_bytes_have_three_limits() -> None:
    """A call, a caller and the replica have a limit each. Another caller is not affected by the first two."""
    kept = ResumeBytes(MOST, 60)
    assert kept.begin("first", "one")
    assert kept.reserve("first", kept.by_call) == 0, "one event is larger than the limit of a call"
    calls = 0
    while kept.begin(f"{calls}", "one") and kept.reserve(f"{calls}", 100_000):
        calls += 1
    assert 3 <= calls <= 5, "half of 1 MiB"
    assert not kept.set_round("first", 200_000)
    assert kept.set_round("first", 0)
    assert kept.begin("other", "two")
    assert kept.set_round("other", 200_000)
    assert kept.reserve("other", 100_000)
    kept.settle("other", 50_000)
    kept.forget("other")
    for number in range(calls + 1):
        kept.forget(f"{number}")
    kept.forget("first")
    assert kept.used == 0


def test_a_call_that_does_not_wait_holds_memory_of_requests() -> None:
    """Whatever a call does and however it ends, all its counts are given back."""
    in_flight, memory = InFlight(10), Memory(MOST)
    every = WaitingCalls(in_flight, memory, 10)
    in_flight.acquire(None)
    memory.acquire(50_000)
    call = WaitingCall(every, "one", {"name": "greet"}, 50_000)
    assert isinstance(call.pauses, Pauses)
    with call.waiting(beyond=False), call.waiting(beyond=False):
        call.note_answer(b'"%b"' % (b"x" * 10_000))
        assert (in_flight.count, memory.held, every.requests.used) == (0, 0, 2)
        assert 60_000 <= every.bytes.used_by("one") < 61_000
        with pytest.raises(ClientRequestError, match="a quarter of MAX_BUFFERED_BYTES"):
            call.note_answer(b'"%b"' % (b"x" * (MOST // 4)))
    assert (in_flight.count, every.requests.used, every.bytes.used) == (1, 0, 0)
    assert 60_000 <= memory.held < 61_000
    call.end()
    assert memory.held == 50_000
    with call.waiting(beyond=False):  # a task that ends late
        pass
    assert (in_flight.count, memory.held, every.bytes.used) == (1, 50_000, 0)

"""Tests of the sealed form of a round: any replica with the keys reads it, and nobody else reads or changes it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from anyreplica.features.sessions.call_events import OpenRound, Question, RoundSeal

KEYS = ["one key of at least 32 characters, for tests", "another key of at least 32 characters, for tests"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
    max_leaves=8,
)
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(st.text(), JSON, max_size=4)
QUESTIONS = st.builds(Question, st.text(), st.text(), st.none() | OBJECTS)
ROUNDS = st.builds(
    OpenRound,
    st.sampled_from(["tools/call", "prompts/get"]),
    OBJECTS,
    st.just("2025-11-25"),
    st.integers(0, 99),
    st.none() | st.text(),
    st.dictionaries(st.text(), QUESTIONS, max_size=3),
)


@given(ROUNDS)
def test_another_replica_reads_the_same_round(found: OpenRound) -> None:
    """A round stays the same when it is sealed and opened. After a change of the keys, the old key still opens it."""
    sealed = RoundSeal(KEYS[:1], "server").seal("stream", found)
    assert RoundSeal(KEYS[:1], "server").open("stream", sealed) == found
    assert RoundSeal([KEYS[1], KEYS[0]], "server").open("stream", sealed) == found


def test_a_round_is_for_one_call_of_one_server() -> None:
    """A round is not valid for another call, for another server, with other keys, or after a change."""
    found = OpenRound("tools/call", {"name": "secret"}, "2025-11-25", 0, "state", {})
    sealed = RoundSeal(KEYS, "server").seal("stream", found)
    assert "secret" not in sealed
    assert RoundSeal(KEYS, "server").open("another stream", sealed) is None
    assert RoundSeal(KEYS, "another server").open("stream", sealed) is None
    assert RoundSeal(KEYS[1:], "server").open("stream", sealed) is None
    for changed in (sealed[:-2], "A" + sealed, sealed.swapcase(), "", "x"):
        assert RoundSeal(KEYS, "server").open("stream", changed) is None

"""The study of clients that never close their sessions."""

import pytest

from tests.benchmarks.measuring import measured, medians

pytestmark = pytest.mark.alone


def test_it_runs() -> None:
    """A client leaves less memory in a stateless replica than in a server with sessions.

    Neither server refuses a client. The long run has figures of the memory.
    """
    study = measured("session_flood", "--only", "stateless,unbounded", "--seconds", "2")
    flood = study.table("flood")
    stateless, unbounded = medians(flood, "stateless"), medians(flood, "unbounded")
    for figures in (stateless, unbounded):
        assert (figures["refused"], figures["errors"]) == (0, 0)
        assert figures["admitted"] > 0
        assert 20 < figures["memory_before"] <= figures["memory_after"] < 400
        assert 0 < figures["p50"] <= figures["p99"] < 60_000
    assert stateless["kept"] < unbounded["kept"]
    long = medians(study.table("long"), "echo")
    assert long["requests"] == 8_000
    assert 20 < long["memory_tenth"] < long["memory_end"] + 5 < 400

"""The study of clients that never close their sessions."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.interruption import run
from benchmarks.load import LoadError
from benchmarks.session_flood.__main__ import _flooded
from benchmarks.session_flood.cases import CASES, STATELESS, Case
from tests.benchmarks.measuring import measured, medians

pytestmark = pytest.mark.alone

_BOUNDED = next(case for case in CASES if case.name == "bounded")


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


def _flood(case: Case, folder: Path, sessions: bool) -> dict[str, float]:
    with case.serve(min(os.sched_getaffinity(0)), folder) as process:
        process.wait_ready()
        return dict(run(_flooded(process, replace(case, sessions=sessions), 2, 2_000)))


def test_a_limit_refuses_clients(tmp_path: Path) -> None:
    """Clients beyond the maximum number of sessions are counted as refused, not as wrong."""
    settings = {**_BOUNDED.settings, "SESSIONS_MOST": "40"}
    figures = _flood(replace(_BOUNDED, settings=settings), tmp_path, sessions=True)
    assert 0 < figures["admitted"] < 40
    assert figures["refused"] > 0


def test_the_mode_is_checked(tmp_path: Path) -> None:
    """A server without sessions where sessions are expected is a failure."""
    with pytest.raises(LoadError, match="the server opens no session"):
        _flood(STATELESS, tmp_path, sessions=True)

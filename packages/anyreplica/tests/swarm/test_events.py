"""Tests of updates and failures of a stack under load: callers notice little or nothing."""

import contextlib
import threading
from pathlib import Path

import httpx
import pytest

from conftest import until
from tests.calls import get, legacy
from tests.process.test_drain import sent
from tests.swarm.stack import HALF_A_SECOND, IMAGE, SERVICE, Stack, assert_lost_only_in_flight, failures, load
from tests.template.test_image import docker

pytestmark = [pytest.mark.needs("swarm"), pytest.mark.timeout(900)]

RATE = 30
"""Requests per second that replicas can serve while they share a virtual machine's one CPU with starting replicas."""
NOTICED_SECONDS = 5
"""Maximum time until the mesh notices that a container has ended, in seconds.

On a machine with free CPU time, the mesh needs some tenths of a second. On three busy virtual machines, 1.4 s were
measured. A health check would need 12 s. Another replica takes the place of the ended container after 8 s.
"""


def test_a_rolling_update(stack: Stack, tmp_path: Path) -> None:
    """A rolling update of all three replicas fails no request.

    This holds for kept and for fresh connections, and for both protocol families.
    """
    with load(stack.url, tmp_path, RATE) as running:
        running.wait_for(5 * RATE)
        said = stack.deploy("next")
        assert f"{IMAGE}:next" in said
        running.wait_for(int(RATE * (running.seconds + 5)))
        runs = running.stop()
    assert stack.images() == {f"{IMAGE}:next"}
    assert failures(runs) == [], said
    assert len({replica["name"] for run in runs for replica in run["replicas"]}) >= 6, (
        "at least three old and three new replicas took part"
    )


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("crashing", "non-zero exit (1)"),
        pytest.param("sick", "unhealthy", marks=pytest.mark.long),
    ],
)
def test_an_image_that_is_no_good_is_taken_back(stack: Stack, tmp_path: Path, tag: str, reason: str) -> None:
    """Swarm rolls a bad image back by itself, and no caller notices.

    `make deploy` fails, and prints the reason and the last log lines of the failed task.
    """
    before = stack.images()
    with load(stack.url, tmp_path, RATE) as running:
        running.wait_for(2 * RATE)
        said = stack.deploy(tag, ok=False)
        assert "The update of mcp failed, and Swarm rolled it back" in said
        assert reason in said
        if tag == "crashing":
            assert "Last log lines:\n    broken" in said
        until(lambda: stack.update_state() == "rollback_completed", "the rollback is complete", 120)
        stack.wait("3/3", 120)
        runs = running.stop()
    assert failures(runs) == [], said
    assert stack.images() == before


@pytest.mark.long
def test_kept_connections_find_new_replicas(stack: Stack, tmp_path: Path) -> None:
    """Kept connections reach new replicas: after 45 s, five replicas have equal shares, within 20 %.

    The clients never close their connections. There are 100 connections. If there were only twelve, each replica would
    have two or three of them, which is 17 % less or 25 % more than an equal share.
    """
    stack.scale(3)
    with load(stack.url, tmp_path, 40, ("keepalive",), callers=100) as running:
        stack.scale(5)
        there = running.seconds
        running.wait_for(int(40 * (there + 80)))
        stack.scale(2)
        running.wait_for(int(40 * (running.seconds + 10)))
        runs = running.stop()
    stack.scale(3)
    assert failures(runs) == []
    served = running.served(there + 45, there + 80)
    assert len(served) == 5
    fair = sum(served.values()) / 5
    assert all(0.8 * fair <= count <= 1.2 * fair for count in served.values()), served


def serves(stack: Stack) -> bool:
    """Return whether a replica answers."""
    with contextlib.suppress(httpx.HTTPError):
        return get(f"{stack.url}/healthz").status_code == 200
    return False


def end(url: str, code: int) -> None:
    """Call a tool that ends its replica immediately with an exit code."""
    arguments = {"name": "end", "arguments": {"code": code}}
    with contextlib.suppress(httpx.HTTPError):
        legacy(url, "tools/call", arguments)


def test_a_replica_that_dies_costs_what_was_in_flight(stack: Stack, tmp_path: Path) -> None:
    """When a replica dies, only calls fail that were in flight or sent shortly afterwards.

    The mesh needs a moment to notice the death. Then another replica takes the place of the dead one. With the edge
    proxy, only calls in flight fail: `test_edge.py`.
    """
    with load(stack.url, tmp_path, RATE, callers=30, call=HALF_A_SECOND) as running:
        running.wait_for(8 * RATE)
        end(stack.url, 137)
        until(lambda: stack.replicas() != "3/3", "Swarm reports a missing replica", 60)
        stack.wait("3/3", 120)
        running.stop()
    assert_lost_only_in_flight(running, NOTICED_SECONDS)


def test_whatever_ends_a_replica_another_takes_its_place(stack: Stack) -> None:
    """Swarm replaces a replica after any exit, also after exit code 0 and after the tenth crash in a row."""
    for code in (0, *[1] * 10):
        until(lambda: serves(stack), "a replica answers", 120)
        end(stack.url, code)
    stack.wait("3/3", 240)


@pytest.mark.long
def test_calls_in_flight_outlive_their_replica(stack: Stack) -> None:
    """Calls in flight end normally during an update of all replicas.

    They take 3 s and 20 s, in both protocol families, as JSON and as event streams.
    """
    answers: list[httpx.Response] = []

    def call(tool: str, seconds: float, family: str) -> None:
        answers.append(httpx.post(f"{stack.url}/mcp", timeout=60, **sent(tool, seconds, family)))

    calls = [
        threading.Thread(target=call, args=(tool, seconds, family))
        for tool in ("take", "report_and_take")
        for seconds in (3, 20)
        for family in ("legacy", "modern")
    ]
    for each in calls:
        each.start()
    replaced = docker("service", "ps", "--quiet", "--filter", "desired-state=running", SERVICE).split()
    stack.deploy("good" if stack.images() == {f"{IMAGE}:next"} else "next")
    for each in calls:
        each.join()
    assert [answer.status_code for answer in answers] == [200] * len(calls)
    assert all("took " in answer.text for answer in answers)
    codes = docker("inspect", "--format", "{{.Status.ContainerStatus.ExitCode}}", *replaced).split()
    assert codes == ["0"] * 3

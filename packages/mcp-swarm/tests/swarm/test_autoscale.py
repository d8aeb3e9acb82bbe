"""The autoscaler in a real Swarm: the replicas follow the load, and no call is lost."""

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from conftest import until
from tests.swarm.stack import IMAGE, NAME, Load, Stack, load

pytestmark = [pytest.mark.needs("swarm"), pytest.mark.timeout(1500)]

OVERLAY = "deploy/autoscale.yml"
TAKE = ("--tool", "take", "--args", '{"seconds": 2}')
"""Calls of two seconds. At a rate of 5 calls/s, 10 calls are in flight at any time."""
SECONDS = 90
"""Time limit for the replicas to follow a step of the load, in seconds."""


@pytest.fixture(scope="module")
def scaled() -> Iterator[Stack]:
    """A stack of two to six replicas. Each should serve six calls at the same time, and can serve twenty.

    The mesh balances connections and not calls, so a replica may have twice as many calls as another one.
    """
    stack = Stack(f"{NAME}-autoscale", PORT="8152", MCP_COMPONENTS="timed", MAX_IN_FLIGHT="20")
    stack.settings |= {"AUTOSCALE_MIN": "2", "AUTOSCALE_MAX": "6", "AUTOSCALE_TARGET": "0.3"}
    try:
        stack.deploy("good", "REPLICAS=2", f"OVERLAYS={OVERLAY}")
        yield stack
    finally:
        for service in ("autoscale", "docker-api"):  # pytest shows them if the test fails
            subprocess.run(["docker", "service", "logs", "--timestamps", f"{stack.name}_{service}"], check=False)
        stack.make("undeploy")


def begin(stack: Stack, loads: contextlib.ExitStack, folder: Path, rate: float) -> Load:
    """Add a load of calls of two seconds, in calls per second."""
    at = folder / f"{rate:g}-{stack.serving()}"
    at.mkdir()
    return loads.enter_context(load(stack.url, at, rate, ("fresh",), 40, TAKE))


def errors(loads: list[Load]) -> list[str]:
    """Stop the loads, and return the errors of failed calls."""
    return [error for each in loads if each.stop() for error in each.errors()]


def _serves(stack: Stack, least: int) -> bool:
    return stack.serving() >= least


def said(stack: Stack) -> str:
    """Return the log of the autoscaler."""
    done = subprocess.run(
        ["docker", "service", "logs", f"{stack.name}_autoscale"], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_replicas_follow_the_load(images: None, scaled: Stack, tmp_path: Path) -> None:
    """The load rises in steps to almost three times what two replicas serve well. No call is lost."""
    with contextlib.ExitStack() as loads:
        running = []
        for rate, least in ((5, 2), (2.5, 3), (3, 4), (4, 5)):
            running.append(begin(scaled, loads, tmp_path, rate))
            until(partial(_serves, scaled, least), f"{least} replicas serve", SECONDS)
        running[-1].wait_for(60)
        assert errors(running) == []
    assert "calls in flight: " in said(scaled)


def test_a_step_during_an_update_is_served_after_it(images: None, scaled: Stack, tmp_path: Path) -> None:
    """During an update, the number of replicas stays. After it, the replicas follow the load. No call is lost."""
    scaled.scale(2)
    update = threading.Thread(target=scaled.deploy, args=("next",))
    with contextlib.ExitStack() as loads:
        running = [begin(scaled, loads, tmp_path, 3)]
        update.start()
        until(lambda: scaled.update_state() == "updating", "the update has begun", 60)
        running.append(begin(scaled, loads, tmp_path, 5))
        update.join()
        assert scaled.images() == {f"{IMAGE}:next"}
        until(partial(_serves, scaled, 3), "a third replica serves", SECONDS)
        assert errors(running) == []
    assert "an update runs" in said(scaled)

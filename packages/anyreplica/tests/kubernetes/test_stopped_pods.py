"""Pods that are killed from outside, and pods that hang: which calls fail, and what takes their place."""

from pathlib import Path

import pytest

from conftest import until
from tests.kubernetes.in_flight import OpenCalls
from tests.kubernetes.release import URL, Release, is_ready, kubectl, signal_pod, wait_until_node_forgets
from tests.swarm.stack import load

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900), pytest.mark.slow]

RATE = 10
"""Requests per second beside the calls that the test keeps open."""


@pytest.fixture(autouse=True)
def whole(release: Release) -> None:
    """Three replicas, also after a test that has removed the release."""
    release.install("good")
    release.wait()


def test_a_pod_that_is_killed_is_replaced(release: Release, tmp_path: Path) -> None:
    """`kubectl delete --force` costs the calls that ran at the pod. Another pod takes its place.

    The pod has one second from SIGTERM to SIGKILL. Later calls fail only until the nodes know of it.
    """
    victim, *_ = release.pods()
    name = victim["metadata"]["name"]
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(2 * RATE)
        calls = OpenCalls(URL, 30)
        kubectl("delete", "pod", name, "--grace-period=0", "--force")
        wait_until_node_forgets(victim)
        forgotten = running.seconds
        release.wait()
        running.wait_for(int(RATE * (running.seconds + 10)))
        running.stop()
    lost = calls.running.pop(name)
    assert calls.served() == calls.running
    assert len(calls.lost()) == lost, calls.lost()
    assert running.failed(forgotten) == []
    assert name not in release.restarts()
    assert running.served(forgotten, running.seconds).keys() >= release.restarts().keys(), "the new pod serves"


def test_a_replica_that_hangs_is_restarted(release: Release, tmp_path: Path) -> None:
    """A pod whose probes get no answer leaves the Service, is restarted, and serves again.

    Only calls fail that begin before the nodes know that the pod is not ready.
    """
    hung, *_ = release.pods()
    name = hung["metadata"]["name"]
    restarts = release.restarts()[name]
    with load(URL, tmp_path, RATE, callers=30) as running:
        running.wait_for(2 * RATE)
        signal_pod(hung, "SIGSTOP")
        stopped = running.seconds
        until(lambda: not _ready(release, name), "the readiness probe has failed", 60)
        wait_until_node_forgets(hung)
        forgotten = running.seconds
        until(lambda: release.restarts()[name] > restarts, "the liveness probe has failed: the pod is restarted", 180)
        release.wait()
        back = running.seconds
        running.wait_for(int(RATE * (back + 15)))
        running.stop()
    print(f"Hung at {stopped:.1f} s, out of the rules at {forgotten:.1f} s, back at {back:.1f} s")
    assert running.failed(0), "the load has reached the pod"
    assert running.failed(forgotten) == []
    assert name in running.served(back, running.seconds), "the restarted pod serves"


def _ready(release: Release, name: str) -> bool:
    (pod,) = [each for each in release.pods() if each["metadata"]["name"] == name]
    return is_ready(pod)

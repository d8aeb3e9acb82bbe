"""The chart in a real cluster under load: callers notice little or nothing of what an operator does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, until
from tests.kubernetes.release import NAME, URL, Release, is_ready, kubectl, node_of, node_ready, of_node
from tests.swarm.stack import HALF_A_SECOND, assert_lost_only_in_flight, failures, load
from tests.swarm.test_events import end

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]

RATE = 30
"""Requests per second that replicas can serve while they share a virtual machine's one CPU with starting replicas."""
NOTICED_SECONDS = 10
"""Maximum time until no node sends connections to a pod that has ended, in seconds."""


def test_a_pod_is_as_safe_as_the_chart_says(release: Release) -> None:
    """The container runs as the image's user, without capabilities, with seccomp, and can write to /tmp only."""
    release.wait()
    look = "id -u; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/1/status; touch /tmp/a && echo tmp; touch /app/a"
    said = kubectl("exec", f"deployment/{NAME}", "--", "sh", "-c", f"({look}) 2>&1 || true")
    user, *protection, tmp, app = said.splitlines()
    assert user != "0"
    assert dict(line.split() for line in protection) == {
        "CapEff:": "0000000000000000",
        "NoNewPrivs:": "1",
        "Seccomp:": "2",
    }
    assert tmp == "tmp"
    assert "Read-only file system" in app


def test_replicas_are_on_different_nodes(release: Release) -> None:
    """Each node has a replica, the logs are JSON lines, and a pod was never restarted."""
    release.wait()
    assert sorted(node_of(each) for each in release.pods()) == [1, 2, 3]
    assert all(each["status"]["containerStatuses"][0]["restartCount"] == 0 for each in release.pods())
    lines = kubectl("logs", f"deployment/{NAME}").splitlines()
    assert {"message", "level"} <= json.loads(lines[0]).keys()
    subprocess.run(
        [sys.executable, "test_mcp_client.py", "--url", f"{URL}/mcp", "--rapid", "30"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )


def test_an_upgrade_fails_no_request(release: Release, tmp_path: Path) -> None:
    """A rolling update of all three replicas fails no request: kept and fresh connections, both protocol families."""
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(5 * RATE)
        release.install("next")
        release.wait()
        running.wait_for(int(RATE * (running.seconds + 5)))
        runs = running.stop()
    assert release.images() == {"next"}
    assert failures(runs) == []
    assert len({replica["name"] for each in runs for replica in each["replicas"]}) >= 6


def test_an_image_that_crashes_is_taken_back(release: Release, tmp_path: Path) -> None:
    """helm fails and goes back to the version before, and no caller notices."""
    release.wait()
    before = release.images()
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(2 * RATE)
        said = release.install("crashing", "--rollback-on-failure", "--timeout", "45s", ok=False)
        release.wait()
        runs = running.stop()
    assert failures(runs) == [], said
    assert release.images() == before


def test_a_replica_that_dies_costs_what_was_in_flight(release: Release, tmp_path: Path) -> None:
    """When a replica ends at once, only calls fail that were in flight or sent shortly afterwards."""
    release.wait()
    with load(URL, tmp_path, RATE, callers=30, call=HALF_A_SECOND) as running:
        running.wait_for(8 * RATE)
        end(URL, 137)
        until(lambda: len(release.ready()) < 3, "a replica is missing", 60)
        release.wait()
        running.stop()
    assert_lost_only_in_flight(running, NOTICED_SECONDS)


def test_a_drained_node_fails_no_request(release: Release, tmp_path: Path) -> None:
    """`kubectl drain` moves the replica of a node to another one, and no caller notices."""
    release.wait()
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(5 * RATE)
        try:
            kubectl("drain", "node3", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
            release.wait()
            running.wait_for(int(RATE * (running.seconds + 5)))
        finally:
            kubectl("uncordon", "node3")
        runs = running.stop()
    assert failures(runs) == []
    assert {node_of(each) for each in release.pods()} == {1, 2}


@pytest.mark.slow
def test_scaling_fails_no_request(release: Release, tmp_path: Path) -> None:
    """3, 6, 2 and 3 replicas: no request fails."""
    release.wait()
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(2 * RATE)
        for replicas in (6, 2, 3):
            release.scale(replicas)
        running.wait_for(int(RATE * (running.seconds + 15)))
        runs = running.stop()
    assert failures(runs) == []


@pytest.mark.slow
def test_a_lost_node_is_replaced(release: Release, tmp_path: Path) -> None:
    """A lost node gets no more calls when the cluster has noticed it. Then another replica takes the place of its own.

    Until then, the node's share of new connections fails. Kubernetes needs about 50 s.
    """
    release.wait()
    kubectl("rollout", "restart", f"deployment/{NAME}")  # one replica on each node
    kubectl("rollout", "status", f"deployment/{NAME}", "--timeout=240s")
    release.wait()
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(5 * RATE)
        of_node("kill", 3)
        try:
            until(lambda: not node_ready(3), "the cluster says that the node is not ready", 120)
            noticed = running.seconds
            until(
                lambda: sum(is_ready(each) and node_of(each) != 3 for each in release.pods()) == 3, "three serve", 400
            )
            running.stop()
        finally:
            of_node("start", 3)
    assert running.failed(noticed + NOTICED_SECONDS) == 0


def test_an_uninstall_leaves_the_keys_only(release: Release) -> None:
    """After `helm uninstall`, only the Secret with the keys is left. The next installation uses it."""
    release.uninstall()
    kinds = (
        "all,configmaps,secrets,networkpolicies,poddisruptionbudgets,persistentvolumeclaims,horizontalpodautoscalers"
    )

    def left() -> list[str]:
        return kubectl("get", kinds, "--selector", "app.kubernetes.io/instance=shop", "--output", "name").split()

    until(lambda: left() == [f"secret/{NAME}-keys"], lambda: f"only the keys are left, not {left()}", 120)

"""The chart in a real cluster under load: callers notice little or nothing of what an operator does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, until
from tests.kubernetes.in_flight import OpenCalls
from tests.kubernetes.release import (
    IMAGE,
    NAME,
    URL,
    Release,
    is_ready,
    kubectl,
    node_of,
    node_ready,
    of_node,
    start_node,
    wait_until_node_forgets,
)
from tests.swarm.stack import failures, load
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


@pytest.mark.slow
def test_calls_of_14_seconds_outlive_an_upgrade(release: Release, tmp_path: Path) -> None:
    """Calls that take longer than the drain of a replica end with their result while all replicas are replaced."""
    release.wait()
    tag = "good" if release.images() == {"next"} else "next"
    with load(URL, tmp_path, 2, callers=20, call=("--tool", "take", "--args", '{"seconds": 14}')) as running:
        running.wait_for(2 * 16)
        begun = running.seconds
        release.install(tag)
        release.wait()
        running.wait_for(int(2 * (running.seconds + 20)))
        runs = running.stop()
    assert failures(runs) == []
    assert release.images() == {tag}
    assert min(running.slower_than(0)) > 13  # the clocks of the nodes are not exact
    # The old replicas have answered the calls that ran when the upgrade began. Each new one has answered, too.
    assert len(running.served(0, begun)) == 3
    assert len(running.served(0, running.seconds)) >= 6


@pytest.mark.slow
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
    """When a replica ends at once, only calls fail that ran there, or that were sent shortly afterwards."""
    release.wait()
    restarts = release.restarts()
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(2 * RATE)
        calls = OpenCalls(URL, 20)
        end(URL, 137)
        died = running.seconds
        until(lambda: release.restarts() != restarts, "the replica is restarted", 60)
        release.wait()
        running.wait_for(int(RATE * (died + NOTICED_SECONDS + 5)))
        running.stop()
    (dead,) = [name for name, count in release.restarts().items() if count != restarts[name]]
    lost = calls.running.pop(dead)
    assert calls.served() == calls.running
    assert len(calls.lost()) == lost, calls.lost()
    assert running.failed(died + NOTICED_SECONDS) == []


def test_a_drained_node_fails_no_request(release: Release, tmp_path: Path) -> None:
    """`kubectl drain` moves the replica of a node to another one, and no caller notices."""
    release.wait()
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(5 * RATE)
        with release.drained_node() as node:
            running.wait_for(int(RATE * (running.seconds + 5)))
            left = {node_of(each) for each in release.pods()}
        runs = running.stop()
    assert failures(runs) == []
    assert node not in left


@pytest.mark.slow
def test_scaling_fails_no_request(release: Release, tmp_path: Path) -> None:
    """No request fails while the release is scaled from 3 replicas to 8, and back to 3."""
    release.wait()
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(2 * RATE)
        for replicas in (8, 3):
            release.scale(replicas)
        running.wait_for(int(RATE * (running.seconds + 15)))
        runs = running.stop()
    assert failures(runs) == []


@pytest.mark.slow
def test_a_lost_node_is_replaced(release: Release, tmp_path: Path) -> None:
    """A lost node gets no more calls when the other nodes know of its loss. Another replica takes the place of its own.

    Until then, the node's share of new connections fails. Kubernetes needs about 50 s to notice the loss, and a moment
    more until the rules of each node no longer have the lost replica. The test waits for the rules of the node that it
    calls: how late they are depends on how busy that node is, and not on the chart.
    """
    release.wait()
    kubectl("rollout", "restart", f"deployment/{NAME}")  # one replica on each node
    kubectl("rollout", "status", f"deployment/{NAME}", "--timeout=240s")
    release.wait()
    (lost,) = [each for each in release.pods() if node_of(each) == 3]
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(5 * RATE)
        of_node("kill", 3)
        killed = running.seconds
        try:
            until(lambda: not node_ready(3), "the cluster says that the node is not ready", 120)
            noticed = running.seconds
            wait_until_node_forgets(lost)
            forgotten = running.seconds
            until(
                lambda: sum(is_ready(each) and node_of(each) != 3 for each in release.pods()) == 3, "three serve", 400
            )
            running.stop()
        finally:
            start_node(3)
    print(f"Killed at {killed:.1f} s, noticed at {noticed:.1f} s, forgotten at {forgotten:.1f} s. All failed calls:")
    print(*running.failed(0), sep="\n")
    assert running.failed(killed - 5), "the load reaches the lost node"
    assert running.failed(forgotten) == []


@pytest.mark.slow
def test_an_uninstall_leaves_the_keys_only(release: Release) -> None:
    """After `helm uninstall`, only the Secret with the keys is left. The next installation uses it."""
    release.install(
        "good",
        autoscaling={"mode": "cpu", "minReplicas": 3},
        ingress={"enabled": True, "className": "traefik", "hosts": ["localhost"]},
        networkPolicy={"enabled": True},
        redis={"minimal": {"enabled": True, "image": f"{IMAGE}:services"}},
        worker={"enabled": True},
    )
    kinds = (
        "all,endpointslices,configmaps,secrets,ingresses,networkpolicies,poddisruptionbudgets,"
        "persistentvolumeclaims,horizontalpodautoscalers"
    )

    def left() -> list[str]:
        objects = kubectl("get", kinds, "--selector", "app.kubernetes.io/instance=shop", "--output", "name").split()
        return objects + kubectl("get", "secrets", "--selector", "owner=helm,name=shop", "--output", "name").split()

    there = {each.partition("/")[0].partition(".")[0] for each in left()}
    assert there >= {"ingress", "networkpolicy", "poddisruptionbudget", "horizontalpodautoscaler", "endpointslice"}
    release.uninstall()
    until(lambda: left() == [f"secret/{NAME}-keys"], lambda: f"only the keys are left, not {left()}", 120)

"""Replicas and workers with a Redis in the cluster: jobs survive a lost node, and users are asked during an update."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from conftest import until
from tests.kubernetes.release import IMAGE, NAME, PORT, URL, Release, kubectl, node_of, of_node, start_node
from tests.swarm.users import SECONDS, converse

pytestmark = [
    pytest.mark.needs("cluster"),
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
]

JOBS = 8
"""Number of jobs: more than one worker runs."""
VALUES: dict[str, Any] = {
    "env": {"MCP_COMPONENTS": "server,asking,multi_round", "HANDSHAKE_SESSIONS": "full"},
    "redis": {"minimal": {"enabled": True, "image": f"{IMAGE}:services"}},
    "worker": {"enabled": True, "env": {"JOBS_CONCURRENCY": 2}},
}


@pytest.fixture(scope="module")
def sharing(release: Release) -> Iterator[Release]:
    """The release with a Redis and two workers."""
    release.install("good", **VALUES)
    release.wait()
    until(lambda: len(release.pods("worker")) == 2, "two workers run", 120)
    yield release
    release.install("good")
    release.wait()


@pytest.mark.slow
def test_an_update_while_users_are_asked(sharing: Release) -> None:
    """All replicas are replaced while fifty users are being asked, and each user gets the greeting for its answer."""
    old = {each["metadata"]["name"] for each in sharing.pods()}

    def names() -> list[str]:
        return kubectl("get", "pods", "--output", "jsonpath={.items[*].metadata.name}").split()

    def replace() -> None:
        sharing.install("next", **VALUES)
        until(lambda: old.isdisjoint(names()), "the old replicas have ended", SECONDS)

    users, _ = asyncio.run(converse(URL, replace))
    assert {user.asked_by for user in users} == old, "each old replica has asked users"


@pytest.mark.slow
def test_jobs_survive_a_lost_node(sharing: Release) -> None:
    """Another worker runs the jobs of a worker whose node is lost."""
    # While all pods are updated, sometimes only one node has enough CPU, and it gets both workers. A restart of the
    # workers alone puts them on different nodes.
    worker = f"deployment/{NAME}-worker"
    kubectl("rollout", "restart", worker)
    kubectl("rollout", "status", worker, "--timeout=240s")
    until(lambda: len(sharing.all_pods("worker")) == 2, "two workers run", 120)
    assert len({node_of(each) for each in sharing.pods("worker")}) == 2, "the workers are on different nodes"
    (redis,) = sharing.pods("redis")
    lost = next(node for each in sharing.pods("worker") if (node := node_of(each)) != node_of(redis))
    url = f"http://127.0.0.{node_of(redis)}:{PORT}"
    with httpx.Client(base_url=url, timeout=30) as client:
        given = {"job": "generate_report", "params": {"rows": 400_000}}
        jobs = [client.post("/jobs", json=given).json()["id"] for _ in range(JOBS)]

        def found() -> list[dict[str, object]]:
            with httpx.Client(base_url=url, timeout=30) as fresh:
                return [json.loads(fresh.get(f"/jobs/{job}/status").text) for job in jobs]

        until(lambda: sum(each["status"] == "running" for each in found()) == 4, "both workers run jobs", 60)
    of_node("kill", lost)
    try:
        ended = ("completed", "failed", "cancelled")

        def all_ended() -> bool:
            try:
                return all(each["status"] in ended for each in found())
            except (httpx.TransportError, KeyError):  # a replica of the lost node, or a replica without Redis
                return False

        until(all_ended, "all jobs have ended", 400)
        last = found()
    finally:
        start_node(lost)
    assert {each["status"] for each in last} == {"completed"}
    assert max(int(str(each["attempts"])) for each in last) == 2

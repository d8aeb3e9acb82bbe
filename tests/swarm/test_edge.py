"""The edge proxy in a Swarm, by its overlays: `make deploy OVERLAYS=deploy/edge.yml`.

EDGE_IMAGE names an image with HAProxy that the nodes have, or can pull; its ports are taken to be at 127.0.0.1.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from conftest import until
from tests.mcp import HEADERS, in_session, open_session, request
from tests.swarm.stack import HALF_A_SECOND, NAME, Stack, load
from tests.swarm.test_events import end

pytestmark = [pytest.mark.needs("swarm"), pytest.mark.timeout(900)]

EDGE, STICKY = 8151, 8152
"""Ports of two stacks, beside the one that other tests share."""


@contextlib.contextmanager
def deployed(port: int, *overlays: str) -> Iterator[str]:
    """A stack with two replicas and the edge proxy on a port; gives where that is."""
    stack = Stack(f"{NAME}-{port}", PORT=f"{port + 10}", EDGE_PORT=f"{port}")
    try:
        stack.deploy("good", "REPLICAS=2", f"OVERLAYS={' '.join(overlays)}")
        yield f"http://127.0.0.1:{port}"
    finally:
        stack.make("undeploy")


def evenly(url: str) -> bool:
    """Whether two replicas take turns in answering the requests of one connection."""
    body = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
    with contextlib.suppress(httpx.HTTPError), httpx.Client(base_url=url, timeout=10) as client:
        answers = [client.post("/mcp", json=body, headers=HEADERS) for _ in range(20)]
        served = Counter(answer.headers.get("X-Served-By") for answer in answers if answer.status_code == 200)
        return sorted(served.values()) == [10, 10]
    return False


def opened(url: str) -> dict[str, str]:
    """Six sessions by their ids, and which replica has each; none while there is no replica that keeps sessions."""
    with contextlib.suppress(httpx.HTTPError, KeyError):
        return dict(open_session(url) for _ in range(6))
    return {}


@pytest.mark.usefixtures("stack")
def test_each_request_of_a_connection_goes_to_another_replica() -> None:
    """Through Swarm's own names of the replicas, and a health check of each."""
    with deployed(EDGE, "deploy/edge.yml") as url:
        until(lambda: evenly(url), "an even spread", 60)


@pytest.mark.usefixtures("stack")
def test_a_replica_that_dies_costs_only_what_was_in_flight_on_it(tmp_path: Path) -> None:
    """Each call that fails was begun before the first of them ended, which is when the replica died."""
    with deployed(EDGE, "deploy/edge.yml") as url:
        until(lambda: evenly(url), "an even spread", 60)
        with load(url, tmp_path, 30, callers=30, call=HALF_A_SECOND) as running:
            running.wait_for(240)
            end(url, 137)
            until(lambda: evenly(url), "a new replica has its half", 120)
            running.stop()
    spans = running.spans_of_failed()
    assert any(spans), "what was in flight"
    for failed in filter(None, spans):
        assert max(begun for begun, _ in failed) < min(ended for _, ended in failed)


@pytest.mark.usefixtures("stack")
def test_a_session_stays_with_its_replica() -> None:
    """With deploy/sticky.yml, whatever the connection."""
    with deployed(STICKY, "deploy/edge.yml", "deploy/sticky.yml") as url:
        until(lambda: len(set(opened(url).values())) == 2, "sessions on both replicas", 60)
        sessions = opened(url)
        for _ in range(3):
            for session, replica in sessions.items():
                reply = in_session(url, session)
                assert (reply.status_code, reply.headers["X-Served-By"]) == (200, replica)

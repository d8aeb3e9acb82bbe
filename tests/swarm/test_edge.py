"""The edge proxy in a Swarm, by its overlays: `make deploy OVERLAYS=deploy/edge.yml`.

EDGE_IMAGE names an image with HAProxy that the nodes have, or can pull; its ports are taken to be at 127.0.0.1.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from conftest import until
from tests.mcp import HEADERS, in_session, open_session, request
from tests.swarm.stack import NAME, Stack

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
def test_a_session_stays_with_its_replica() -> None:
    """With deploy/sticky.yml, whatever the connection."""
    with deployed(STICKY, "deploy/edge.yml", "deploy/sticky.yml") as url:
        until(lambda: len(set(opened(url).values())) == 2, "sessions on both replicas", 60)
        sessions = opened(url)
        for _ in range(3):
            for session, replica in sessions.items():
                reply = in_session(url, session)
                assert (reply.status_code, reply.headers["X-Served-By"]) == (200, replica)

"""The edge proxy in a Swarm, by its overlays: `make deploy OVERLAYS=deploy/edge.yml`.

Its port is taken to be at 127.0.0.1 (SWARM_EDGE_PORT, 8151); EDGE_IMAGE names an image with HAProxy that the nodes
have, or can pull.
"""

import os
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from conftest import until
from tests.mcp import HEADERS, in_session, open_session, request
from tests.swarm.stack import Stack

pytestmark = [pytest.mark.needs("swarm"), pytest.mark.timeout(900)]

PORT = os.environ.get("SWARM_EDGE_PORT", "8151")
URL = f"http://127.0.0.1:{PORT}"


@pytest.fixture(scope="module")
def edge(stack: Stack) -> Iterator[Stack]:
    """A stack of its own, beside the one that other tests share."""
    deployed = Stack(f"{stack.name}-edge", PORT=f"{int(PORT) + 1}", EDGE_PORT=PORT, MCP_REPLICAS="2")
    try:
        yield deployed
    finally:
        deployed.make("undeploy")


def served() -> Counter[str]:
    """Who answers each of twenty requests on one connection."""
    body = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
    with httpx.Client(base_url=URL, timeout=10) as client:
        answers = [client.post("/mcp", json=body, headers=HEADERS) for _ in range(20)]
    return Counter(answer.headers.get("X-Served-By", "nobody") for answer in answers if answer.status_code == 200)


def evenly() -> bool:
    """Whether two replicas take turns."""
    try:
        return sorted(served().values()) == [10, 10]
    except httpx.HTTPError:
        return False


def opened() -> dict[str, str]:
    """Six sessions by their ids, and which replica has each; none while there is no replica that keeps sessions."""
    try:
        return dict(open_session(URL) for _ in range(6))
    except (httpx.HTTPError, KeyError):
        return {}


def test_each_request_of_a_connection_goes_to_another_replica(edge: Stack) -> None:
    """Through Swarm's own names of the replicas, and a health check of each."""
    edge.deploy("good", "REPLICAS=2", "OVERLAYS=deploy/edge.yml")
    until(evenly, "an even spread", 60)


def test_a_session_stays_with_its_replica(edge: Stack) -> None:
    """With deploy/sticky.yml, whatever the connection; after an update that no proxy was told of."""
    edge.deploy("good", "REPLICAS=2", "OVERLAYS=deploy/edge.yml deploy/sticky.yml")
    until(lambda: len(set(opened().values())) == 2, "sessions on both replicas", 60)
    sessions = opened()
    for _ in range(3):
        for session, replica in sessions.items():
            reply = in_session(URL, session)
            assert (reply.status_code, reply.headers["X-Served-By"]) == (200, replica)

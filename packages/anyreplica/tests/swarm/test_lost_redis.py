"""Jobs in a Swarm that loses the node of its Redis: `deploy/jobs-sentinel.yml`."""

import contextlib
import threading
from collections.abc import Iterator

import httpx
import pytest

from conftest import until
from tests.swarm import nodes
from tests.swarm.stack import NAME, Stack
from tests.template.test_image import docker

pytestmark = [pytest.mark.needs("nodes"), pytest.mark.long, pytest.mark.timeout(900)]

OVERLAYS = "deploy/jobs.yml deploy/jobs-sentinel.yml"
LOST = 1
"""The node of the first master."""
SURVIVOR = 2


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """A separate stack with its Redis servers on labelled nodes, used through the second node."""
    for node in (1, 2, 3):
        docker("node", "update", "--label-add", f"redis={node}", f"node{node}")
    monkeypatch.setenv("DOCKER_HOST", nodes.engines()[SURVIVOR])
    made = Stack(f"{NAME}-jobs", PORT="8152")
    made.url = f"http://127.0.0.{SURVIVOR}:8152"
    try:
        made.deploy("good", "REPLICAS=2", f"OVERLAYS={OVERLAYS}")
        yield made
    finally:
        nodes.plug_in(LOST)
        made.make("undeploy")


class Caller:
    """A caller that submits small reports and keeps the ids of the accepted ones."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.accepted: list[str] = []
        self.refused = 0
        self.without_answer = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go)
        self._thread.start()

    def _go(self) -> None:
        body = {"job": "generate_report", "params": {"rows": 10}}
        while not self._stop.wait(0.2):
            try:  # A new connection each time, because the mesh leads some connections to the lost node.
                reply = httpx.post(f"{self.url}/jobs", json=body, timeout=5)
            except httpx.HTTPError:
                self.without_answer += 1
                continue
            if reply.status_code == 202:
                self.accepted.append(reply.json()["id"])
            else:
                self.refused += 1

    def wait_for_more(self, seconds: float = 60) -> None:
        """Wait until ten more jobs are accepted."""
        wanted = len(self.accepted) + 10
        until(lambda: len(self.accepted) >= wanted, "ten more jobs are accepted", seconds)

    def stop(self) -> None:
        """Stop submitting jobs."""
        self._stop.set()
        self._thread.join()

    def wait_for(self, identity: str) -> None:
        """Wait until a job is completed."""
        until(lambda: self.state(identity) == "completed", "an accepted job is completed", 120)

    def state(self, identity: str) -> str:
        """Return the state of a job, or an empty text while no replica answers."""
        with contextlib.suppress(httpx.HTTPError):
            reply = httpx.get(f"{self.url}/jobs/{identity}/status", timeout=5)
            assert reply.status_code in (200, 503), f"status of an accepted job: {reply.text}"
            return str(reply.json().get("status", ""))
        return ""


def test_accepted_jobs_survive_the_loss_of_the_masters_node(stack: Stack) -> None:
    """All jobs that were accepted before and after the loss of the master's node are completed."""
    caller = Caller(stack.url)
    try:
        caller.wait_for_more(120)
        nodes.unplug(LOST)
        before = len(caller.accepted)
        caller.wait_for_more()
        until(lambda: nodes.is_down(LOST), "Swarm reports that the node is down", 120)
        caller.wait_for_more()
    finally:
        caller.stop()
    for identity in caller.accepted:
        caller.wait_for(identity)
    print(
        f"{before} jobs accepted before, {len(caller.accepted) - before} after the loss, all completed;",
        f"{caller.refused} refused and {caller.without_answer} without an answer",
    )

"""Jobs survive a lost node: three nodes have the Redis servers and Sentinels of `deploy/jobs-sentinel.yml`.

The nodes are network namespaces of this machine. The tests cut nodes off and kill their processes.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from conftest import ROOT, Server, until
from tests.deploy.network import Network, Node, only_root
from tests.jobs.queue import FINISHED, lines
from tests.replicas import KEYS

pytestmark = [pytest.mark.system, pytest.mark.needs("redis"), only_root]

SCRIPTS = ROOT / "deploy" / "redis"
OVERLAY: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "jobs-sentinel.yml").read_text())
SENTINELS = OVERLAY["services"]["redis"]["environment"]["REDIS_SENTINELS"]
JOBS = {"JOBS_COPIES": OVERLAY["services"]["mcp"]["environment"]["JOBS_COPIES"], "JOBS_REDELIVERY_SECONDS": "3"}
PASSWORD = "c0ffee"
URL = f"redis+sentinel://:{PASSWORD}@{','.join(SENTINELS.split())}/jobs?sentinel_password={PASSWORD}"
REDIS = {1: "redis", 2: "redis-2", 3: "redis-3"}
APP = 4
"""The node of the replica and the worker, which is never lost."""
SERVED_AGAIN = 15.0
"""Maximum time after the loss of a node until jobs are accepted again, in seconds."""


class Trio:
    """Three nodes with a Redis and a Sentinel each, and a fourth node with a replica and a worker."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self.secret = folder / "jobs_url"
        self.secret.write_text(f"{URL}\n")
        self.password = PASSWORD
        self.servers: list[Server] = []
        for number in REDIS:
            self.start(number)

    def start(self, number: int) -> None:
        """Start the Redis and the Sentinel of a node, with the volumes that it already has."""
        node = self.network.nodes[number]
        for kind, script in (("REDIS", "server.sh"), ("SENTINEL", "sentinel.sh")):
            volume = self.folder / f"{kind}-{number}"
            volume.mkdir(exist_ok=True)
            name = REDIS[number] if kind == "REDIS" else f"sentinel-{number}"
            named = {"REDIS_DATA": str(volume), "REDIS_SENTINELS": SENTINELS, f"{kind}_NAME": name}
            log = self.folder / f"{kind}-{number}.log"
            node.start(log, "sh", SCRIPTS / script, JOBS_URL_FILE=str(self.secret), **named)

    def serve(self) -> str:
        """Start a replica and a worker on the fourth node, and return the replica's URL."""
        url = self.serve_on(APP)
        self.serve_on(APP, "worker")
        return url

    def serve_on(self, number: int, *arguments: str) -> str:
        """Start a replica or a worker on a node, and return its URL."""
        node = self.network.nodes[number]
        port = 8000 + len(self.servers)
        settings = {"MCP_HOST": "0.0.0.0", "MCP_PORT": str(port), "MCP_COMPONENTS": "tests.packs.working"}
        shared = {"MCP_REPLICAS": "2", "REQUEST_STATE_KEYS": KEYS, "REDIS_URL": URL, "JOBS_URL": URL, **JOBS}
        server = Server(self.folder / f"server-{port}.log", *arguments, within=node.within, **settings, **shared)
        server.url = f"http://{node.address}:{port}"
        self.servers.append(server)
        server.wait_ready()
        return server.url

    def ask(self, number: int, *command: str, port: int = 6379) -> str:
        """Return the reply of a node's Redis or Sentinel to a command from the same node."""
        client = ("redis-cli", "-p", str(port), *command)
        return self.network.nodes[number].run("timeout", "2", *client, REDISCLI_AUTH=self.password)

    def master(self, number: int) -> int | None:
        """Return the node of the master, as the Sentinel of a node reports it."""
        name = self.ask(number, "sentinel", "get-master-addr-by-name", "jobs", port=26379).partition("\n")[0]
        return next((node for node, redis in REDIS.items() if redis == name), None)

    def copies(self, number: int) -> int:
        """Return the number of copies of a node's Redis, or 0 if it is not a master."""
        said = self.ask(number, "info", "replication")
        return said.count("state=online") if "role:master" in said else 0

    def knows_all(self, number: int) -> bool:
        """Return whether a node's Sentinel has found both copies; it looks every ten seconds."""
        said = self.ask(number, "sentinel", "master", "jobs", port=26379).splitlines()
        return dict(zip(said[::2], said[1::2], strict=False)).get("num-slaves") == "2"

    def wait_for_another(self, lost: int, node: int) -> None:
        """Wait until the Sentinel of a node reports a new master."""
        until(lambda: self.master(node) not in (None, lost), f"node {node}'s Sentinel reports a new master")

    def wait_whole(self, node: int) -> None:
        """Wait until a master has two copies and all Sentinels have found them."""

        def whole() -> bool:
            master = self.master(node)
            return master is not None and self.copies(master) == 2 and all(map(self.knows_all, REDIS))

        until(whole, "a master has two copies and all Sentinels have found them", 60)


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    """Three nodes, with a master that has two copies."""
    names = {name: node for node, redis in REDIS.items() for name in (redis, f"sentinel-{node}")}
    with Network(4, names) as network:
        made = Trio(network, tmp_path)
        try:
            made.wait_whole(1)
            yield made
        finally:
            for node in network.nodes.values():
                node.come_back()
            for server in made.servers:
                server.stop()
                print(server.log.name)  # pytest shows this output if the test failed
                print("\n".join(line for line in server.output.splitlines() if ".access" not in line))


class Caller:
    """A caller that submits jobs in the background and keeps the ids of the accepted ones."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.Client(base_url=url, timeout=60)
        self.accepted: list[str] = []
        self.other: list[str] = []
        """Replies with a status other than 202 and 503."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go)
        self._thread.start()

    def _go(self) -> None:
        while not self._stop.wait(0.02):
            reply = self.client.post("/jobs", json={"job": "text_of", "params": {"length": len(self.accepted)}})
            if reply.status_code == 202:
                self.accepted.append(reply.json()["id"])
            elif reply.status_code != 503:
                self.other.append(reply.text)

    def wait_for_more(self, count: int = 20, seconds: float = SERVED_AGAIN) -> None:
        """Wait until `count` more jobs are accepted."""
        wanted = len(self.accepted) + count
        until(lambda: len(self.accepted) >= wanted, f"{count} more jobs are accepted", seconds)

    def finds_redis(self) -> bool:
        """Return whether the replica reaches all services that it needs."""
        return httpx.get(f"{self.url}/health/deep", timeout=60).status_code == 200

    def stop(self) -> None:
        """Stop submitting jobs."""
        self._stop.set()
        self._thread.join()

    def results(self) -> list[Any]:
        """Wait until all accepted jobs have finished, and return their results."""
        return [self._result(identity) for identity in self.accepted]

    def _result(self, identity: str) -> Any:
        def finished() -> bool:
            reply = self.client.get(f"/jobs/{identity}/status")
            assert reply.status_code in (200, 503), f"status of an accepted job: {reply.text}"
            return reply.json().get("status") in FINISHED

        until(finished, f"the accepted job {identity} has finished", 60)
        return self.client.get(f"/jobs/{identity}/result").json()["result"]


@contextlib.contextmanager
def calling(url: str) -> Iterator[Caller]:
    """Run a caller until the block ends or the caller is stopped."""
    caller = Caller(url)
    try:
        caller.wait_for_more()
        yield caller
    finally:
        caller.stop()
        caller.client.close()


def lose(node: Node) -> None:
    """Cut a node off and kill its processes, as a power cut does."""
    node.vanish()
    node.kill()


@pytest.mark.servers
def test_accepted_jobs_survive_the_loss_of_any_node(trio: Trio) -> None:
    """Accepted jobs survive the loss and the return of each node in turn, first of the master's."""
    with calling(trio.serve()) as caller:
        for lost in REDIS:
            survivor = lost % 3 + 1
            lose(trio.network.nodes[lost])
            caller.wait_for_more()
            trio.wait_for_another(lost, survivor)
            caller.wait_for_more()
            until(caller.finds_redis, "the replica is connected to the Redis of REDIS_URL")
            trio.network.nodes[lost].come_back()
            trio.start(lost)
            trio.wait_whole(survivor)
            caller.wait_for_more()
        caller.stop()
        assert caller.other == []
        assert caller.results() == ["x" * number for number in range(len(caller.accepted))]


@pytest.mark.servers
def test_a_master_that_was_cut_off_takes_no_jobs(trio: Trio) -> None:
    """No accepted job is lost when the master is cut off, which becomes a copy; without a copy, callers get 503."""
    with calling(trio.serve()) as caller:
        trio.network.nodes[1].vanish()
        caller.wait_for_more()
        trio.wait_for_another(1, 2)
        assert trio.master(1) == 1, "the Sentinel of the cut-off node still reports the old master"
        trio.network.nodes[1].come_back()
        trio.wait_whole(2)
        assert trio.master(1) == trio.master(2) != 1
        caller.wait_for_more()
        caller.stop()
        assert caller.results() == ["x" * number for number in range(len(caller.accepted))]
    for number in set(REDIS) - {trio.master(1)}:
        trio.network.nodes[number].vanish()
    reply = httpx.post(f"{caller.url}/jobs", json={"job": "text_of", "params": {"length": 1}}, timeout=60)
    assert (reply.status_code, reply.headers["Retry-After"]) == (503, "2")


INSIDE = """
import httpx, sys
while True:
    with httpx.Client(base_url=sys.argv[1], timeout=60) as client:
        reply = client.post("/jobs", json={"job": "text_of", "params": {"length": 1}})
        print(reply.json()["id"] if reply.status_code == 202 else reply.status_code, flush=True)
"""


@pytest.mark.servers
def test_a_cut_off_replica_accepts_no_job(trio: Trio) -> None:
    """A replica that reaches only its caller and the old master refuses all jobs, because they would be lost."""
    far = trio.network.nodes[1]
    url = trio.serve()
    inside = trio.serve_on(1)
    with calling(url) as caller:
        answers = trio.folder / "inside.log"
        far.start(answers, sys.executable, "-c", INSIDE, inside)
        until(lambda: len(lines(answers)) >= 10, "the caller on the cut-off node has submitted ten jobs")
        far.vanish()
        until(lambda: lines(answers)[-2:] == ["503", "503"], "the replica refuses the jobs of the caller on its node")
        trio.wait_for_another(1, 2)
        before = len(lines(answers))
        until(lambda: len(lines(answers)) >= before + 5, "the caller on the cut-off node has submitted five more jobs")
        assert set(lines(answers)[before:]) == {"503"}
        far.come_back()
        trio.wait_whole(2)
        until(lambda: lines(answers)[-1] != "503", "the replica accepts jobs of its node again", SERVED_AGAIN)
        caller.stop()
        caller.accepted += [line for line in lines(answers) if line != "503"]
        assert set(caller.results()[-10:]) == {"x"}


def test_data_survive_the_loss_of_all_nodes(trio: Trio) -> None:
    """After the loss of all nodes, the last master's data are kept; a restart also brings a new password."""
    lose(trio.network.nodes[1])
    trio.wait_for_another(1, 2)
    last = trio.master(2)
    assert last
    assert trio.ask(last, "set", "kept", "yes") == "OK"
    until(lambda: trio.copies(last) == 1, "the master has one copy")
    assert trio.ask(last, "wait", "1", "5000") == "1"
    for number in (2, 3):
        trio.network.nodes[number].kill()
    trio.network.nodes[1].come_back()
    trio.start(1)
    log = trio.folder / "REDIS-1.log"
    until(lambda: "at least 2 of the Sentinels" in log.read_text(), "the first Redis waits for two Sentinels")
    assert trio.ask(1, "ping") == ""
    for number in (2, 3):
        trio.start(number)
    trio.wait_whole(1)
    assert [trio.ask(number, "get", "kept") for number in REDIS] == ["yes"] * 3
    for number in REDIS:
        trio.network.nodes[number].kill()
    trio.secret.write_text(f"{URL.replace(PASSWORD, 'decaf')}\n")
    trio.password = "decaf"
    for number in REDIS:
        trio.start(number)
    trio.wait_whole(1)

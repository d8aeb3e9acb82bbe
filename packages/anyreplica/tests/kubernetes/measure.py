"""Measure the failed and the slow calls during an operator's actions, in a cluster.

    python -m tests.kubernetes.measure

It needs a cluster of three nodes (see tests/kubernetes/release.py). One run takes about twenty minutes. Each event
happens under two loads of 15 calls a second: over the port of a node, and through the ingress controller. Half of the
calls use kept connections, and the others use new connections.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from conftest import until
from tests.kubernetes.release import (
    INGRESS_PORT,
    NAME,
    PORT,
    URL,
    Release,
    kubectl,
    node_of,
    node_ready,
    of_node,
    start_node,
    wait_until_node_forgets_connections,
)
from tests.swarm.stack import HALF_A_SECOND
from tests.swarm.table import Table
from tests.swarm.test_events import end


class Measure(Table):
    """An installed release and the events in it."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, {"service": PORT, "ingress": INGRESS_PORT})
        self.host = "localhost"
        self.release = Release(ingress={"enabled": True, "className": "traefik", "hosts": [self.host]})

    def whole(self) -> None:
        """Wait until three replicas are ready, one on each node."""
        self.release.wait(3, 400)
        if {node_of(each) for each in self.release.pods()} != {1, 2, 3}:
            kubectl("rollout", "restart", f"deployment/{NAME}")
            kubectl("rollout", "status", f"deployment/{NAME}", "--timeout=300s")
            self.release.wait(3, 120)

    def update(self) -> str:
        """Replace all replicas while calls of 3 s and 20 s run."""
        tag = "good" if self.release.images() == {"next"} else "next"
        took = self.beside_long_calls(lambda: self.release.install(tag))
        self.release.wait()
        return took

    def bad(self) -> str:
        """Install an image that ends at its start."""
        began = time.monotonic()
        self.release.install("crashing", "--rollback-on-failure", "--timeout", "60s", ok=False)
        told = time.monotonic() - began
        self.release.wait()
        return f"helm failed after {told:.0f} s"

    def scale(self) -> str:
        """Scale to eight replicas and back."""
        began = time.monotonic()
        self.release.scale(8)
        grown = time.monotonic() - began
        time.sleep(20)  # time for calls whose failures are measured
        self.release.scale(3)
        return f"eight replicas after {grown:.0f} s"

    def die(self) -> str:
        """End one replica, as SIGKILL does."""
        began = time.monotonic()
        end(URL, 137)
        until(lambda: len(self.release.ready()) < 3, "a replica is missing", 60)
        self.release.wait()
        return f"three replicas again after {time.monotonic() - began:.1f} s"

    def drain(self) -> str:
        """Drain a node, as an operator does before its maintenance."""
        began = time.monotonic()
        with self.release.drained_node():
            pass
        return f"drained, and three replicas again, after {time.monotonic() - began:.0f} s"

    def lose(self) -> str:
        """Cut the power of node 3, and wait until three replicas serve on the other nodes."""
        began = time.monotonic()
        of_node("kill", 3)
        until(lambda: not node_ready(3), "the cluster says that the node is not ready", 180)
        missed = time.monotonic() - began

        def three_serve() -> bool:
            return sum(node_of(each) != 3 for each in self.release.ready()) == 3

        until(three_serve, "three replicas serve on the other nodes", 500)
        return f"node not ready after {missed:.0f} s, three replicas again after {time.monotonic() - began:.0f} s"

    def run(self) -> None:
        """Measure all events once."""
        self.whole()
        self.measure("rolling update", self.update)
        self.measure("an image that crashes at its start", self.bad)
        self.measure("scale 3, 8, 3", self.scale)
        self.measure("a replica dies", self.die, *HALF_A_SECOND, callers=15)
        self.whole()
        self.measure("a node is taken out", self.drain)
        self.whole()
        try:
            self.measure("a node is unplugged", self.lose)
        finally:
            start_node(3)
        wait_until_node_forgets_connections()


def main() -> None:
    """Measure, and print a line of JSON for each event."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="number of runs (default: 3)")
    parser.add_argument("--file", type=Path, default=Path("measured.jsonl"), help="file to which lines are appended")
    options = parser.parse_args()
    if "CLUSTER_NODES" not in os.environ:
        parser.error('no cluster is chosen; start one with .ci/cluster up, then run eval "$(.ci/cluster env)"')
    measure = Measure(options.file)
    try:
        measure.release.install("good")
        for number in range(1, options.runs + 1):
            print(f"Run {number} of {options.runs}", file=sys.stderr)
            measure.run()
    finally:
        measure.release.uninstall()


if __name__ == "__main__":
    main()

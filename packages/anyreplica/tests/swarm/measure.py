"""Measure the failed and the slow calls during an operator's actions, over the mesh and through the proxy.

    python -m tests.swarm.measure

It needs a Swarm of three nodes and the variable SWARM_NODES (see tests/swarm/nodes.py). One run takes about a quarter
of an hour. Each event happens under a load of 30 calls a second: half over the mesh and half through the proxy. In each
half, half of the calls use kept connections, and the others use new connections.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from conftest import until
from tests.swarm import nodes
from tests.swarm.stack import HALF_A_SECOND, IMAGE, NAME, Stack
from tests.swarm.table import Table
from tests.swarm.test_events import end
from tests.template.test_image import docker

MESH, EDGE = 8150, 8151


class Measure(Table):
    """A deployed stack and the events in it."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, {"mesh": MESH, "proxy": EDGE})
        self.stack = Stack(f"{NAME}-{EDGE}", PORT=str(MESH), EDGE_PORT=str(EDGE))

    def deploy(self) -> None:
        """Deploy three replicas, and a proxy on each node."""
        self.stack.deploy("good", "REPLICAS=3", "OVERLAYS=deploy/edge.yml")
        self.whole()

    def whole(self) -> None:
        """Wait until all replicas run and each node has one."""
        docker("node", "ls")
        self.stack.wait("3/3", 240)
        if len(self.stack.nodes()) < 3:  # Swarm adds a task on an empty node, then removes one of two tasks on a node.
            self.stack.scale(4)
            self.stack.scale(3)

    def update(self) -> str:
        """Replace all replicas while calls of 3 s and 20 s run."""
        tag = "good" if self.stack.images() == {f"{IMAGE}:next"} else "next"
        return self.beside_long_calls(lambda: self.stack.deploy(tag, "OVERLAYS=deploy/edge.yml"))

    def bad(self, tag: str) -> str:
        """Deploy a bad image."""
        began = time.monotonic()
        self.stack.deploy(tag, "OVERLAYS=deploy/edge.yml", ok=False)
        told = time.monotonic() - began
        until(lambda: self.stack.update_state() == "rollback_completed", "the rollback is complete", 120)
        self.stack.wait("3/3", 120)
        return f"make deploy failed after {told:.0f} s, 3/3 again after {time.monotonic() - began:.0f} s"

    def scale(self) -> str:
        """Scale to five replicas, then to two, and then to three."""
        self.stack.scale(5)
        time.sleep(20)  # time for calls whose failures are measured
        self.stack.scale(2)
        time.sleep(10)
        self.stack.scale(3)
        return ""

    def die(self) -> str:
        """Stop one replica, as SIGKILL does."""
        began = time.monotonic()
        end(f"http://{self.host}:{MESH}", 137)
        until(lambda: self.stack.replicas() != "3/3", "Swarm reports a missing replica", 60)
        self.stack.wait("3/3", 120)
        return f"3/3 after {time.monotonic() - began:.1f} s"

    def lose(self, lost: int, how: Callable[[int], None], has_replica: bool = True) -> str:
        """Lose a node by calling `how`, and wait until three replicas serve if the node had a replica."""
        began = time.monotonic()
        how(lost)
        until(lambda: nodes.is_down(lost), "Swarm reports that the node is down", 90)
        missed = time.monotonic() - began
        if not has_replica:
            return f"node down after {missed:.1f} s"
        until(lambda: self.stack.serving() == 3, "three replicas serve", 90)
        return f"node down after {missed:.1f} s, 3/3 after {time.monotonic() - began:.1f} s"

    def lost_node(self, name: str, how: Callable[[int], None], *, leads: bool = False, drained: bool = False) -> None:
        """Measure the loss of a node, as clients of another node see it; then start the node again."""
        self.whole()
        engines = nodes.engines()
        lost = next(node for node in engines if (node == nodes.leader()) is leads)
        if drained:
            docker("node", "update", "--availability", "drain", f"node{lost}")
            until(lambda: len(self.stack.nodes()) == 2, "all replicas are on two nodes", 120)
            self.stack.wait("3/3", 120)
        left = next(node for node in engines if node != lost)
        self.host = f"127.0.0.{left}"
        os.environ["DOCKER_HOST"] = engines[left]
        try:
            self.measure(name, lambda: self.lose(lost, how, not drained))
        finally:
            nodes.plug_in(lost)
            until(lambda: not nodes.is_down(lost), "Swarm reports that the node is up again", 120)
            if drained:
                docker("node", "update", "--availability", "active", f"node{lost}")

    def run(self) -> None:
        """Measure all events once."""
        self.measure("rolling update", self.update)
        self.measure("an image that crashes at its start", lambda: self.bad("crashing"))
        self.measure("an image that never gets healthy", lambda: self.bad("sick"))
        self.measure("scale 3, 5, 2, 3", self.scale)
        self.measure("a replica dies", self.die, *HALF_A_SECOND, callers=15)
        self.lost_node("a node is unplugged", nodes.unplug)
        self.lost_node("a node is cut off", lambda node: nodes.cut_off(node, 45))
        self.lost_node("the leader is unplugged", nodes.unplug, leads=True)
        self.lost_node("the leader, without a replica, is unplugged", nodes.unplug, leads=True, drained=True)


def main() -> None:
    """Measure, and print two lines of JSON for each event: one for the mesh and one for the proxy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="number of runs (default: 3)")
    parser.add_argument(
        "--file", type=Path, default=Path("measured.jsonl"), help="file to which the lines are appended"
    )
    options = parser.parse_args()
    measure = Measure(options.file)
    try:
        measure.deploy()
        for number in range(1, options.runs + 1):
            print(f"Run {number} of {options.runs}", file=sys.stderr)
            measure.run()
    finally:
        measure.stack.make("undeploy")


if __name__ == "__main__":
    main()

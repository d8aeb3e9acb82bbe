"""Nodes in one network: network namespaces on a bridge. A test can cut off a node without a reset."""

import os
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can create networks")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Node:
    """A node of a network, with its own address."""

    def __init__(self, network: "Network", number: int) -> None:
        self.name = f"{network.name}n{number}"
        self.address = f"{network.prefix}.{number}"
        self.processes: list[subprocess.Popen[bytes]] = []
        _ip("netns", "add", self.name)
        _ip("link", "add", "eth0", "netns", self.name, "type", "veth", "peer", "name", self.name, "netns", network.name)
        _ip("-n", network.name, "link", "set", self.name, "master", "bridge", "up")
        for command in (f"addr add {self.address}/24 dev eth0", "link set eth0 up", "link set lo up"):
            _ip("-n", self.name, *command.split())

    @property
    def within(self) -> list[str]:
        """The beginning of a command line that runs a command on the node."""
        return ["ip", "netns", "exec", self.name]

    def start(self, log: Path, *command: str | Path, **variables: str) -> subprocess.Popen[bytes]:
        """Start a program on the node."""
        given: dict[str, Any] = {"env": {**os.environ, **variables}, "start_new_session": True}
        with log.open("ab") as stream:
            process = subprocess.Popen([*self.within, *command], stdout=stream, stderr=subprocess.STDOUT, **given)
        self.processes.append(process)
        return process

    def run(self, *command: str, **variables: str) -> str:
        """Run a program on the node and return its output."""
        environ = {**os.environ, **variables}
        command = (*self.within, *command)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=10)
        return done.stdout.strip()

    def vanish(self) -> None:
        """Drop all packets from and to this node, without a reset."""
        self._traffic("DROP")

    def come_back(self) -> None:
        """Connect the node to the network again. The node's processes still run, unless `kill` has ended them."""
        self._traffic("ACCEPT")

    def kill(self) -> None:
        """Kill all processes that were started on this node."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes.clear()

    def _traffic(self, policy: str) -> None:
        for chain, interface in (("INPUT", "-i"), ("OUTPUT", "-o")):
            # Programs on the node can still reach each other.
            for rule in (f"-P {chain} {policy}", f"-F {chain}", f"-A {chain} {interface} lo -j ACCEPT"):
                subprocess.run([*self.within, "iptables", *rule.split()], check=True, capture_output=True)


class Network:
    """A bridge with nodes, which this machine can also reach.

    Args:
        count: number of nodes; their numbers start at 1.
        names: host names, each with the number of its node; they are valid on all nodes.
    """

    def __init__(self, count: int, names: Mapping[str, int]) -> None:
        number = secrets.randbelow(2**12)
        self.name = f"net{number}"
        self.prefix = f"10.{200 + number // 256}.{number % 256}"
        self._folders: list[Path] = []
        self.nodes: dict[int, Node] = {}
        _ip("netns", "add", self.name)
        _ip("-n", self.name, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.name, "link", "set", "bridge", "up")
        _ip("link", "add", self.name, "type", "veth", "peer", "name", "door", "netns", self.name)
        _ip("addr", "add", f"{self.prefix}.254/24", "dev", self.name)
        _ip("link", "set", self.name, "up")
        _ip("-n", self.name, "link", "set", "door", "master", "bridge", "up")
        hosts = "".join(f"{self.prefix}.{node} {name}\n" for name, node in names.items())
        for each in range(1, count + 1):
            self.nodes[each] = node = Node(self, each)
            folder = Path("/etc/netns") / node.name  # `ip netns exec` puts its files over those of /etc
            folder.mkdir(parents=True)
            self._folders.append(folder)
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the network and kill all processes on its nodes."""
        for node in self.nodes.values():
            node.kill()
            _ip("netns", "del", node.name)
        _ip("netns", "del", self.name)
        for folder in self._folders:
            (folder / "hosts").unlink()
            folder.rmdir()

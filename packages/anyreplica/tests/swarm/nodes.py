"""Functions that start, stop and inspect the Swarm's nodes, with the command that the variable `SWARM_NODES` names.

The command accepts `kill N`, `start N` (returns when the Swarm has settled), `ssh N COMMAND…` and `env`. `env` prints
the address of each node as `# nodeN: ADDRESS`; the node's engine listens on port 2375. The mesh of node N is reachable
on 127.0.0.N.
"""

import os
import re
import subprocess

from tests.template.test_image import docker


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [os.environ["SWARM_NODES"], *arguments], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def engines() -> dict[int, str]:
    """Return the `DOCKER_HOST` of each node."""
    return {int(number): f"tcp://{address}:2375" for number, address in re.findall(r"# node(\d+): (\S+)", _run("env"))}


def revive() -> list[int]:
    """Restart the nodes whose engine does not answer, and return their numbers.

    A virtual machine may crash by itself, which is not a fault of the tested code.
    """
    gone = []
    for node, host in engines().items():
        try:
            answer = subprocess.run(["docker", "--host", host, "version"], capture_output=True, check=False, timeout=20)
        except subprocess.TimeoutExpired:
            answer = None
        if answer is None or answer.returncode != 0:
            gone.append(node)
            unplug(node)
            plug_in(node)
    return gone


def leader() -> int:
    """Return the number of the leading manager's node."""
    lines = docker("node", "ls", "--format", "{{.ManagerStatus}} {{.Hostname}}").splitlines()
    return next(int(line[-1]) for line in lines if line.startswith("Leader"))


def is_down(node: int) -> bool:
    """Return whether the Swarm has marked a node as down."""
    return f"node{node} Down" in docker("node", "ls", "--format", "{{.Hostname}} {{.Status}}", check=False)


def unplug(node: int) -> None:
    """Cut the power of a node."""
    _run("kill", str(node))


def plug_in(node: int) -> None:
    """Start a node, and wait until the Swarm has settled."""
    _run("start", str(node))


def cut_off(node: int, seconds: float) -> None:
    """Disconnect a node from the network for a time in seconds; its programs continue."""
    off_and_on = f"ip link set eth0 down; sleep {seconds:g}; ip link set eth0 up"
    _run("ssh", str(node), f"setsid sh -c '{off_and_on}' >/dev/null 2>&1 </dev/null &")


def forget_idle_connections(node: int, seconds: int) -> None:
    """Let a node's mesh drop connections that were idle for a time in seconds.

    The kernel's default is 900 s.
    """
    _run("ssh", str(node), f"{_IN_THE_MESH} ipvsadm --set {seconds} 5 5")


def connections(node: int) -> set[str]:
    """Return the connections in a node's mesh, each by its client's address and port."""
    return set(
        re.findall(r"^TCP +\S+ +\S+ +(\S+)", _run("ssh", str(node), f"{_IN_THE_MESH} ipvsadm -Lcn"), re.MULTILINE)
    )


_IN_THE_MESH = "nsenter --net=/var/run/docker/netns/ingress_sbox"

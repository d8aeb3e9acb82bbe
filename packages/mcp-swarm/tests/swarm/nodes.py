"""The Swarm's nodes as machines, which can be unplugged: by a command that `SWARM_NODES` names.

It takes `kill N`, `start N` (returns when the Swarm has settled), `ssh N COMMAND…` and `env` (which prints each node's
address as `# nodeN: ADDRESS`, and whose engine is on port 2375). Node N's mesh is reached on 127.0.0.N.
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
    """Each node's `DOCKER_HOST`."""
    return {int(number): f"tcp://{address}:2375" for number, address in re.findall(r"# node(\d+): (\S+)", _run("env"))}


def revive() -> list[int]:
    """Start those again whose engine doesn't answer; returns which.

    A virtual machine may crash by itself, which is no fault of what is tested.
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
    """The node whose manager leads the others."""
    lines = docker("node", "ls", "--format", "{{.ManagerStatus}} {{.Hostname}}").splitlines()
    return next(int(line[-1]) for line in lines if line.startswith("Leader"))


def is_down(node: int) -> bool:
    """Whether the Swarm has given a node up."""
    return f"node{node} Down" in docker("node", "ls", "--format", "{{.Hostname}} {{.Status}}", check=False)


def unplug(node: int) -> None:
    """Take its power."""
    _run("kill", str(node))


def plug_in(node: int) -> None:
    """Give it power again, and wait until the Swarm has settled."""
    _run("start", str(node))


def cut_off(node: int, seconds: float) -> None:
    """Take it off the network for so long; all that runs on it goes on."""
    off_and_on = f"ip link set eth0 down; sleep {seconds:g}; ip link set eth0 up"
    _run("ssh", str(node), f"setsid sh -c '{off_and_on}' >/dev/null 2>&1 </dev/null &")


def forget_idle_connections(node: int, seconds: int) -> None:
    """Let a node's mesh forget connections that were idle for so long; a kernel's own figure is 900."""
    _run("ssh", str(node), f"{_IN_THE_MESH} ipvsadm --set {seconds} 5 5")


def connections(node: int) -> set[str]:
    """The connections that a node's mesh knows, each by its client's address and port."""
    return set(
        re.findall(r"^TCP +\S+ +\S+ +(\S+)", _run("ssh", str(node), f"{_IN_THE_MESH} ipvsadm -Lcn"), re.MULTILINE)
    )


_IN_THE_MESH = "nsenter --net=/var/run/docker/netns/ingress_sbox"

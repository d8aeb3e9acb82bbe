"""The chart in a real cluster, as an operator uses it: installed by helm, and observed with kubectl.

`.ci/cluster` starts the cluster and sets the variables: KUBECONFIG, and CLUSTER_NODES, which is a command that accepts
`kill N`, `start N` and `ssh N COMMAND…`. The port of node N is reachable on 127.0.0.N. In a cluster with IPv6 only,
the port is reachable on the node's own address. CLUSTER_HOST is the address of node 1.
"""

import contextlib
import ipaddress
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import ROOT, until
from tests import guard
from tests.helm.chart import CHART

NAME = "shop"
IMAGE = "anyreplica-test"
"""Name of the images; the tags are the targets of `tests/swarm/Dockerfile`."""
PORT = 8150
"""The port of the release on each node."""
INGRESS_PORT, TLS_PORT = 8151, 8152
"""The ports of the ingress controller on each node."""
URL = f"http://{os.environ.get('CLUSTER_HOST', '127.0.0.1')}:{PORT}"

Pod = dict[str, Any]


def run(*command: str, ok: bool = True, text: str = "") -> str:
    """Run a command and return its output. It must succeed, or with `ok=False` it must fail."""
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode == 0) is ok, done.stdout + done.stderr
    return (done.stdout + done.stderr).strip() if not ok else done.stdout.strip()


def kubectl(*arguments: str) -> str:
    """Run kubectl and return its output."""
    return run("kubectl", *arguments)


def of_node(verb: str, number: int, *command: str) -> str:
    """Stop a node (`kill`), or run a command there (`ssh`)."""
    return run(os.environ["CLUSTER_NODES"], verb, str(number), *command)


def start_node(number: int) -> None:
    """Start a node again, and wait until it is ready.

    It is no child of this run, and does not have the variable of its guard. Otherwise the guard would end the node with
    the run, and the run would fail.
    """
    environment = {name: value for name, value in os.environ.items() if name != guard.VARIABLE}
    script = '"$1" start "$2" >"$3.log" 2>&1; echo $? >"$3.new"; mv "$3.new" "$3"'
    with tempfile.TemporaryDirectory() as folder:
        ended, log = Path(folder) / "ended", Path(folder) / "ended.log"
        command = ["setsid", "--fork", "sh", "-c", script, "-", os.environ["CLUSTER_NODES"], str(number), str(ended)]
        subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until(ended.exists, lambda: f"node {number} is ready: {log.read_text()}", 400)
        assert ended.read_text() == "0\n", log.read_text()


def node_ready(number: int) -> bool:
    """Return whether the cluster says that a node is ready."""
    conditions = json.loads(kubectl("get", "node", f"node{number}", "-o", "json"))["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class Release:
    """The installed chart.

    Args:
        values: values of the chart for each installation.
    """

    def __init__(self, **values: Any) -> None:
        self._values = values

    def install(self, tag: str, *options: str, ok: bool = True, chart: Path = CHART, **values: Any) -> str:
        """Install one of the images, or upgrade to it, and wait until all replicas are ready.

        Args:
            options: options of `helm upgrade`.
            ok: whether the command must succeed; otherwise it must fail.
            chart: the folder of the chart.
            values: values of the chart, in place of those of the release and of those that all tests use.
        """
        given = {
            "names": {"fullName": NAME},
            "image": {"repository": IMAGE, "tag": tag},
            "service": {"type": "NodePort", "nodePort": PORT},
            "env": {"MCP_COMPONENTS": "server,timed"},
        }
        command = ("helm", "upgrade", "--install", NAME, str(chart), "--reset-values", "--values", "-", "--wait")
        return run(*command, "--timeout", "6m", *options, ok=ok, text=json.dumps(given | self._values | values))

    def uninstall(self) -> None:
        """Remove the release, if it is installed."""
        if run("helm", "list", "--short", "--filter", f"^{NAME}$"):
            run("helm", "uninstall", NAME, "--wait")

    def pods(self, component: str = "replica") -> list[Pod]:
        """Return the pods of a component, without those that are ending."""
        return [each for each in self.all_pods(component) if "deletionTimestamp" not in each["metadata"]]

    def all_pods(self, component: str = "replica") -> list[Pod]:
        """Return the pods of a component, also those that are ending."""
        chosen = f"app.kubernetes.io/component={component}"
        listed: list[Pod] = json.loads(kubectl("get", "pods", "--selector", chosen, "--output", "json"))["items"]
        return listed

    def ready(self) -> list[Pod]:
        """Return the pods of the replicas that are ready."""
        return [each for each in self.pods() if is_ready(each)]

    def restarts(self) -> dict[str, int]:
        """Return how often the container of each replica was restarted, by the name of its pod."""
        return {each["metadata"]["name"]: _restarts(each) for each in self.pods()}

    def images(self) -> set[str]:
        """Return the image tags of all replicas."""
        return {each["spec"]["containers"][0]["image"].rpartition(":")[2] for each in self.pods()}

    def wait(self, replicas: int = 3, seconds: float = 180) -> None:
        """Wait until exactly this number of replicas is ready, and all others have ended.

        A removed replica still answers while it drains. A node that sends connections to it for too long causes failed
        calls only after the replica has ended.
        """
        until(lambda: len(self.ready()) == len(self.all_pods()) == replicas, f"{replicas} replicas are ready", seconds)

    def scale(self, replicas: int) -> None:
        """Scale to this number of replicas, and wait until they are ready."""
        kubectl("scale", f"deployment/{NAME}", f"--replicas={replicas}")
        self.wait(replicas, 240)

    @contextlib.contextmanager
    def drained_node(self) -> Iterator[int]:
        """Drain a node that has a replica, and wait until three are ready on the others. Yield its number.

        Node 1 is never drained, because the load test calls it. After the block, the drained node takes pods again.
        """
        node = max(node_of(each) for each in self.pods())
        assert node > 1, "all replicas are on node 1"
        try:
            kubectl("drain", f"node{node}", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
            self.wait()
            yield node
        finally:
            kubectl("uncordon", f"node{node}")


def _restarts(pod: Pod) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses", []))


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is ready."""
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def node_of(pod: Pod) -> int:
    """Return the number of the node on which a pod runs."""
    return int(pod["spec"]["nodeName"].removeprefix("node"))


def signal_pod(pod: Pod, name: str) -> None:
    """Send a signal to the first process of a pod's container, from its node."""
    container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    of_node("ssh", node_of(pod), f"/opt/node/ctr --namespace k8s.io task kill --signal {name} {container}")


def wait_until_node_forgets(pod: Pod, node: int = 1, seconds: int = 60) -> None:
    """Wait until the rules of a node send no more connections to a pod.

    The controllers of Kubernetes take a pod out of the Service at once. Then kube-proxy writes the rules of each node.
    On these nodes, this took up to 3 s for 24 of 25 changes, and 8 s for one. If kube-proxy cannot write the rules, it
    tries again after 30 s.
    """
    address = pod["status"]["podIP"]
    forgotten = f'until rules=$(iptables-save -t nat) && ! echo "$rules" | grep -qwF {address}; do sleep 0.5; done'
    of_node("ssh", node, f"timeout {seconds} bash -c '{forgotten}'")


def wait_until_node_forgets_connections(node: int = 1, seconds: float = 420) -> None:
    """Wait until a node has forgotten all connections to pods that no longer exist.

    The connections to a lost node are never closed. Each other node remembers them for up to five minutes after their
    last packet (`nf_conntrack_tcp_timeout_max_retrans`). If the same client opens a new connection from the same port
    in this time, the node sends it to the lost pod, and it fails. A connection in the state TIME_WAIT was closed, and
    does not count.
    """

    def remembered() -> set[str]:
        found = of_node("ssh", node, f"grep ' dport={PORT} ' /proc/net/nf_conntrack || [ $? = 1 ]").splitlines()
        return {_address(re.findall(r" src=(\S+)", line)[1]) for line in found if "TIME_WAIT" not in line}

    def pods() -> set[str]:
        return {_address(found) for each in Release().pods() if (found := each["status"].get("podIP"))}

    until(lambda: remembered() <= pods(), f"node {node} has forgotten the connections to lost pods", seconds)


def _address(text: str) -> str:
    return str(ipaddress.ip_address(text))

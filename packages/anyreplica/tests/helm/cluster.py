"""A real API server of Kubernetes with its etcd and its controllers, on private ports of 127.0.0.1.

There are no nodes, so no container runs. `Cluster.run_pods` says in the name of the missing nodes that pods are ready.
"""

import contextlib
import datetime
import json
import os
import secrets
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from conftest import ROOT, free_port, until
from tests.helm.chart import CHART, Object
from tests.helm.metrics import Metrics

CONTROLLERS = (
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "namespace-controller",
    "replicaset-controller",
    "serviceaccount-controller",
)
"""The controllers that act on objects of the chart, and those that a namespace needs."""
MANAGER = "tests"
"""The name under which `Cluster.apply` owns fields."""


def extensions() -> list[Path]:
    """Return the files with the types of other projects that `.ci/api-server` has installed."""
    program = shutil.which("kube-apiserver")
    return sorted((Path(program).parent.parent / "share" / "kube-apiserver").glob("*.yaml")) if program else []


def conditions(found: Object) -> dict[str, tuple[str, str]]:
    """Return the status and the reason of each condition of an object."""
    listed = (found.get("status") or {}).get("conditions") or []
    return {each["type"]: (each["status"], each.get("reason", "")) for each in listed}


def _write_key(folder: Path) -> Path:
    """Write a key that signs the tokens of service accounts. The API server does not start without one."""
    file = folder / "key.pem"
    kind, form = serialization.PrivateFormat.TraditionalOpenSSL, serialization.Encoding.PEM
    key = ec.generate_private_key(ec.SECP256R1())
    file.write_bytes(key.private_bytes(form, kind, serialization.NoEncryption()))
    return file


class Cluster:
    """The processes, and a client that has all rights.

    Args:
        folder: folder for the data, the keys and the logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._port = free_port()
        self._token = secrets.token_hex(16)
        self._certificate = folder / "certificates" / "apiserver.crt"
        self.kubeconfig = folder / "kubeconfig"
        self.client = httpx.Client()
        self.metrics: Metrics | None = None
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}

    def start(self) -> None:
        """Start all processes, and wait until they serve."""
        address, etcd, peer = "127.0.0.1", *(f"http://127.0.0.1:{free_port()}" for _ in range(2))
        key = _write_key(self._folder)
        tokens = self._folder / "tokens.csv"
        tokens.write_text(f"{self._token},tests,tests,system:masters\n")
        self._run(
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        )
        self._run(
            "kube-apiserver",
            f"--etcd-servers={etcd}",
            f"--bind-address={address}",
            f"--advertise-address={address}",
            f"--secure-port={self._port}",
            f"--cert-dir={self._certificate.parent}",  # the server makes its certificate itself
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/16",
            "--endpoint-reconciler-type=none",
        )
        # The server writes its key after its certificate.
        until(self._certificate.with_suffix(".key").exists, "kube-apiserver has made its certificate", 60)
        self.kubeconfig.write_text(json.dumps(self._access()))
        self.client = httpx.Client(
            base_url=f"https://{address}:{self._port}",
            headers={"Authorization": f"Bearer {self._token}"},
            verify=ssl.create_default_context(cafile=self._certificate),
            timeout=30,
            trust_env=False,
        )
        until(self._ready, "kube-apiserver is ready", 60)
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(CONTROLLERS)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--horizontal-pod-autoscaler-sync-period=1s",
            "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
        )
        self.metrics = Metrics(self._certificate, self._certificate.with_suffix(".key"))
        for each in self.metrics.objects():
            self.apply(each, "kube-system").raise_for_status()

    def _run(self, program: str, *options: str) -> None:
        with (self._folder / f"{program}.log").open("w") as log:
            self._processes[program] = subprocess.Popen(
                [program, *options], cwd=self._folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def _ready(self) -> bool:
        for program, process in self._processes.items():
            if process.poll() is not None:
                pytest.fail(f"{program} ended:\n{(self._folder / f'{program}.log').read_text()[-2000:]}")
        with contextlib.suppress(httpx.TransportError):
            return self.client.get("/readyz").status_code == 200
        return False

    def _access(self) -> Object:
        server = {"server": f"https://127.0.0.1:{self._port}", "certificate-authority": str(self._certificate)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "it", "cluster": server}],
            "users": [{"name": "it", "user": {"token": self._token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "current-context": "it",
        }

    def stop(self) -> None:
        """Stop all processes: etcd last."""
        self.client.close()
        if self.metrics:
            self.metrics.stop()
        for process in reversed(self._processes.values()):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _resource(self, prefix: str, kind: str) -> tuple[str, bool]:
        """Return the name of a type in paths, and whether its objects have a namespace."""
        if (prefix, kind) not in self._resources:
            for each in self.get(prefix)["resources"]:
                if "/" not in each["name"]:
                    self._resources[prefix, each["kind"]] = (each["name"], each["namespaced"])
        return self._resources[prefix, kind]

    def path(self, found: Object, namespace: str = "") -> str:
        """Return the path of an object."""
        version = found["apiVersion"]
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural, namespaced = self._resource(prefix, found["kind"])
        where = f"/namespaces/{namespace}" if namespaced else ""
        return f"{prefix}{where}/{plural}/{found['metadata']['name']}"

    def apply(self, found: Object, namespace: str = "", **options: str) -> httpx.Response:
        """Apply an object as `kubectl apply --server-side --validate=strict` does."""
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict", "force": "true", **options}
        form = {"Content-Type": "application/apply-patch+yaml"}
        return self.client.patch(self.path(found, namespace), params=query, content=yaml.safe_dump(found), headers=form)

    def get(self, path: str) -> Any:
        """Return an object, or a list of objects."""
        return self.client.get(path).raise_for_status().json()

    def wait_for(self, path: str, condition: str) -> Object:
        """Wait until an object has a condition, true or false, and return the object."""
        until(lambda: condition in conditions(self.get(path)), f"{path} has the condition {condition}")
        found: Object = self.get(path)
        return found

    def pods(self, namespace: str, component: str = "replica") -> list[Object]:
        """Return the pods of a component."""
        chosen = f"app.kubernetes.io/component={component}"
        answer = self.client.get(f"/api/v1/namespaces/{namespace}/pods", params={"labelSelector": chosen})
        listed: list[Object] = answer.raise_for_status().json()["items"]
        return listed

    def run_pods(self, namespace: str) -> None:
        """Say that each new pod of a namespace runs and is ready, as its node would do."""
        for each in self.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
            if each["status"]["phase"] == "Pending":
                self.set_ready(each, ready=True)

    def set_ready(self, pod: Object, *, ready: bool) -> None:
        """Say that a pod runs, and whether it is ready."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": now}
        answer = self.client.patch(
            f"/api/v1/namespaces/{namespace}/pods/{name}/status",
            content=json.dumps({"status": {"phase": "Running", "startTime": now, "conditions": [condition]}}),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.status_code in (200, 404), answer.text  # 404: a controller has just removed the pod

    def make_namespace(self, name: str) -> str:
        """Make a namespace that enforces the Pod Security Standard `restricted`, and warns about it."""
        labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        assert self.apply(made).status_code == 201
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(lambda: self.client.get(account).status_code == 200, f"{account} exists")
        return name

    def helm(self, *arguments: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """Run helm for this cluster. The values go to its stdin."""
        given = () if values is None else ("--values", "-")
        return subprocess.run(
            ["helm", *arguments, "--kubeconfig", str(self.kubeconfig), *given],
            input=json.dumps(values or {}),
            env={**os.environ, "HOME": str(self._folder)},  # helm writes a cache there
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def upgrade(self, namespace: str, values: Mapping[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
        """Install the chart as the release `shop`, or upgrade it. The values are not added to earlier ones."""
        command = ("upgrade", "--install", "shop", str(CHART), "--namespace", namespace, "--reset-values", *options)
        return self.helm(*command, values=values)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Run a cluster that knows the types of other projects, as far as their definitions are installed."""
    made = Cluster(folder)
    try:
        made.start()
        for file in extensions():
            definition = yaml.safe_load(file.read_text())
            assert made.apply(definition).status_code == 201
            made.wait_for(made.path(definition), "Established")
        yield made
    finally:
        made.stop()

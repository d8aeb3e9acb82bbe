"""What an operator does with a release in the cluster, under load: no call fails."""

import json
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from anyreplica.features.keys.key import hash_of
from conftest import ROOT, until
from tests.calls import legacy
from tests.helm.chart import CHART
from tests.kubernetes.release import IMAGE, NAME, PORT, URL, Release, kubectl, run
from tests.swarm.stack import failures, load

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]

RATE = 20
"""Requests per second. The nodes are slow, and share their CPU with replicas that start."""
MANY, FEW = 100, 2
"""Requests per second that need more, and less, CPU time of two replicas than the target of the autoscaler.

On a busy machine, four replicas with 4 requests per second used 37m to 76m each, and with 60 per second up to 280m.
"""

_SECRET = f"{NAME}-own"


@pytest.fixture(autouse=True)
def as_before(release: Release) -> Iterator[None]:
    """Return to three replicas without further settings after each test."""
    yield
    release.install("good", "--force-conflicts")
    release.wait(3, 300)
    kubectl("delete", "secret", _SECRET, "--ignore-not-found")


@pytest.mark.slow
def test_replicas_follow_the_cpu_time(release: Release, tmp_path: Path) -> None:
    """With load there are more replicas, and with little load fewer. No call fails.

    The commands are those of the guide.
    """
    behavior = {
        "scaleUp": {"stabilizationWindowSeconds": 0},
        "scaleDown": {
            "stabilizationWindowSeconds": 15,
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
        },
    }
    autoscaling = {"mode": "cpu", "minReplicas": 2, "maxReplicas": 4, "cpu": "100m", "behavior": behavior}
    kubectl("scale", f"deployment/{NAME}", "--replicas=2")
    release.wait(2)
    release.install("good", autoscaling=autoscaling)
    until(lambda: _used() is not None, "the autoscaler knows the CPU time", 180)
    until(lambda: len(release.ready()) == 2, "two replicas serve without load", 180)
    with load(URL, tmp_path, MANY) as running:
        until(lambda: len(release.ready()) > 2, lambda: f"a replica is added; they use {_used()}", 300)
        running.wait_for(int(MANY * (running.seconds + 10)))
        runs = running.stop()
    with load(URL, tmp_path, FEW) as running:
        until(lambda: len(release.pods()) == 2, lambda: f"replicas are removed; they use {_used()}", 300)
        assert running.seconds > 5, "the load was there before the replicas were removed"
        release.wait(2)
        running.wait_for(int(FEW * (running.seconds + 5)))
        runs += running.stop()
    assert failures(runs) == []
    assert len(running.served(0, running.seconds)) > 2


def _used() -> str | None:
    """Return the average CPU time of the replicas, as the autoscaler sees it."""
    status = json.loads(kubectl("get", "hpa", NAME, "--output", "json"))["status"]
    metrics = status.get("currentMetrics") or []
    return metrics[0]["resource"]["current"].get("averageValue") if metrics else None


@pytest.mark.slow
def test_keys_are_changed_without_a_lost_call(release: Release, tmp_path: Path) -> None:
    """First both keys are valid, and then only the new one."""
    old, new = secrets.token_hex(32), secrets.token_hex(32)
    _keep(old)
    env = {
        "MCP_COMPONENTS": "server,timed",
        "AUTH_ENABLED": "true",
        "API_KEYS_FILE": "/etc/anyreplica/secrets/api_keys",
    }
    release.install("good", env=env, secrets={"existingSecret": _SECRET})
    release.wait()
    assert legacy(URL, "tools/list").status_code == 401
    with load(URL, tmp_path, RATE / 2, call=("--token", old)) as before:
        _keep(old, new)
        _restart(release)
        with load(URL, tmp_path, RATE / 2, call=("--token", new)) as after:
            after.wait_for(5 * RATE)
            runs = before.stop()
            _keep(new)
            _restart(release)
            runs += after.stop()
    assert failures(runs) == []
    for _ in range(6):
        assert legacy(URL, "tools/list", Authorization=f"Bearer {old}").status_code == 401
        assert legacy(URL, "tools/list", Authorization=f"Bearer {new}").status_code == 200


def _keep(*keys: str) -> None:
    """Write the hashes of these keys into the Secret."""
    lines = "\n".join(json.dumps({"id": key[:6], "hash": hash_of(key)}) for key in keys)
    known = run("kubectl", "get", "secret", _SECRET, "--ignore-not-found", "--output", "json")
    data = {"api_keys": lines}
    if not known:
        data["request_state_keys"] = secrets.token_hex(32)
    text = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET}, "stringData": data})
    run("kubectl", "apply", "--filename", "-", text=text)


def _restart(release: Release) -> None:
    kubectl("rollout", "restart", f"deployment/{NAME}")
    kubectl("rollout", "status", f"deployment/{NAME}", "--timeout=240s")
    release.wait()


@pytest.mark.slow
def test_an_upgrade_of_the_chart_fails_no_call(release: Release, tmp_path: Path) -> None:
    """The chart before this one is replaced by this one, as `helm upgrade` does it."""
    release.uninstall()
    release.install("good", chart=_chart_before(tmp_path), service={"type": "NodePort"})
    # The chart 0.1.0 cannot choose the port of the nodes.
    ports = [{"op": "replace", "path": "/spec/ports/0/nodePort", "value": PORT}]
    kubectl("patch", "service", NAME, "--type=json", f"--patch={json.dumps(ports)}")
    release.wait()
    with load(URL, tmp_path, RATE) as running:
        running.wait_for(2 * RATE)
        release.install("next")
        release.wait()
        running.wait_for(int(RATE * (running.seconds + 5)))
        runs = running.stop()
    assert failures(runs) == []
    assert release.images() == {"next"}


def _chart_before(folder: Path) -> Path:
    """Return the folder of the newest chart in the history that has another version than today's."""
    where = CHART.relative_to(ROOT)
    file = f"{where}/Chart.yaml"
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    for commit in run("git", "log", "--format=%H", "--", file).split():
        if yaml.safe_load(run("git", "show", f"{commit}:{file}"))["version"] != version:
            archive = subprocess.run(["git", "archive", commit, str(where)], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
            return folder / where
    raise AssertionError(f"the history has no chart with another version than {version}")


def _update(release: Release) -> None:
    release.install("next")


def _drain(release: Release) -> None:
    with release.drained_node():
        pass


def _scale(release: Release) -> None:
    release.scale(5)
    release.scale(3)


@pytest.mark.slow
@pytest.mark.parametrize("event", [_update, _drain, _scale])
def test_an_event_fails_no_call_from_inside(release: Release, event: Callable[[Release], None]) -> None:
    """A pod of the cluster calls the Service by its name, on kept and on fresh connections."""
    release.wait()
    options = f"--url http://{NAME}/mcp --rate {RATE / 2:g} --duration 120s --expect-replicas 1"
    one = f"python -m anyreplica load {options} --connections $kind --json /tmp/$kind >/dev/null 2>&1"
    script = f"for kind in fresh keepalive; do {one} & done; wait; cat /tmp/fresh /tmp/keepalive"
    node = json.dumps({"spec": {"nodeName": "node1"}})
    pod = ("--image", f"{IMAGE}:good", "--restart=Never", "--labels=app=inside", f"--overrides={node}", "--command")
    kubectl("run", "inside", *pod, "--", "sh", "-c", script)
    try:
        # Both loads have begun when the replicas have answered most calls of five seconds.
        recent = ("logs", "--selector=app.kubernetes.io/component=replica", "--since=5s", "--tail=-1")
        until(lambda: kubectl(*recent).count(" tools/call ") > 4 * RATE, "both loads have begun", 120)
        event(release)
        assert _phase() == "Running", "the event was over before the calls were"
        until(lambda: _phase() == "Succeeded", "the calls have ended", 240)
        fresh, kept = _read(kubectl("logs", "inside"))
    finally:
        kubectl("delete", "pod", "inside", "--grace-period=1")
    print(f"{fresh['requests']} and {kept['requests']} requests")
    assert failures([fresh, kept]) == []
    assert len(fresh["replicas"]) > 3


def _read(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects that follow each other in a text."""
    while text := text.strip():
        found, end = json.JSONDecoder().raw_decode(text)
        yield found
        text = text[end:]


def _phase() -> str:
    return kubectl("get", "pod", "inside", "--output", "jsonpath={.status.phase}")

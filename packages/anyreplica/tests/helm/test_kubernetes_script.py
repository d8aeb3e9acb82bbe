"""`.ci/kubernetes`, with programs in place of docker, kind, kubectl and helm that only note their calls."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

LOAD = """
case $1 in
  -c) exec {python} "$@" ;;
  test_swarm_load.py)
    while [ "$1" != --json ]; do shift; done
    trap 'cat {report} >"$2"; exit 1' INT
    while :; do sleep 0.05; done ;;
  *) echo "$@" >>{log} ;;
esac
"""


@pytest.mark.parametrize(("failed", "status"), [(0, 0), (1, 1)])
def test_it_updates_under_load_and_removes_the_cluster(tmp_path: Path, failed: int, status: int) -> None:
    """The script updates the release while the load runs. It fails if a request failed, and removes its cluster."""
    log = tmp_path / "log"
    report = tmp_path / "report"
    report.write_text(json.dumps({"requests": 2000, "failed": failed}))
    scripts = {name: f'echo {name} "$@" >>{log}; [ -t 0 ] || cat >/dev/null' for name in ("docker", "kind", "helm")}
    scripts["kubectl"] = f'echo kubectl "$@" >>{log}; echo value'
    scripts["python"] = LOAD.format(python=sys.executable, report=report, log=log)
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    changed = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": str(tmp_path / "python"), "PAUSE": "0.5"}
    done = subprocess.run(
        [ROOT / ".ci" / "kubernetes"],
        env={**os.environ, **changed},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert f"{failed} of 2000 requests failed during the update." in done.stdout
    calls = log.read_text().splitlines()
    upgrades = [line for line in calls if line.startswith("helm upgrade --install shop deploy/helm/anyreplica")]
    assert [f"image.tag={tag}" in line for tag, line in zip("12", upgrades, strict=True)] == [True, True]
    assert "test_mcp_client.py --url http://value:value/mcp --rapid 30" in calls
    assert calls[-1] == "kind delete cluster --name anyreplica-chart"
    assert ("helm uninstall shop --wait" in calls) == (status == 0)

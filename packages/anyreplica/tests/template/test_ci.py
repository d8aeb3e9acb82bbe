"""The scripts in `.ci`, and the files that set up a developer's machine."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT, run
from tests.template.test_image import docker

pytestmark = pytest.mark.slow

CI = ROOT / ".ci"
MISSING = "skipped, because ../shared/kit is missing."


def program(file: Path, script: str) -> None:
    """Write a shell script that can be run."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def only(folder: Path, *names: str) -> dict[str, str]:
    """Put these programs of the machine into a folder, and return an environment that has only this folder."""
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or name)
    return {"PATH": str(folder)}


def run_ci(folder: Path, *arguments: str, engine: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a copy of `.ci/run` in `folder/project`. The fake docker command reaches an engine if `engine` is true."""
    (folder / "project" / ".ci").mkdir(parents=True, exist_ok=True)
    shutil.copy(CI / "run", folder / "project" / ".ci" / "run")
    program(folder / "bin" / "docker", f"exit {0 if engine else 1}")
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return run("bash", str(folder / "project" / ".ci" / "run"), *arguments, PATH=path)


@pytest.mark.servers
@pytest.mark.parametrize(
    ("kit", "engine", "image", "swarm"),
    [
        (True, False, "tested on the Docker engine that ../shared/kit starts.", "tested on three nodes"),
        (True, True, "tested on the Docker engine that ../shared/kit starts.", "tested on three nodes"),
        (False, True, "tested on the Docker engine that docker reaches.", MISSING),
        (False, False, "skipped, because docker cannot reach an engine and ../shared/kit is missing.", MISSING),
    ],
)
def test_ci_says_what_it_skips(tmp_path: Path, kit: bool, engine: bool, image: str, swarm: str) -> None:
    """`.ci/run` skips the Swarm without ../shared/kit, and the image without an engine, and prints the reason."""
    if kit:
        for name in ("dockerd-up.sh", "swarm-vm.sh"):
            program(tmp_path / "shared" / "kit" / name, "echo started >&2; exit 1")
    done = run_ci(tmp_path, "--plan", engine=engine)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == f"The image: {image}"
    assert second.startswith(f"The Swarm: {swarm}")


@pytest.mark.servers
def test_ci_ends_without_the_kit(tmp_path: Path) -> None:
    """Without ../shared/kit, `.ci/run` ends with the exit code of the failed command and stops no kit."""
    program(tmp_path / "project" / ".ci" / "install", "exit 42")
    done = run_ci(tmp_path)
    assert (done.returncode, done.stderr) == (42, "")


@pytest.mark.servers
def test_install_asks_only_for_missing_programs(tmp_path: Path) -> None:
    """A program on PATH is not installed again. A missing one is installed with all packages that it needs."""
    log = tmp_path / "log"
    for name in ("apt-get", "sudo"):
        program(tmp_path / name, f'[ "${{0##*/}}" = sudo ] && exec "$@"; echo "$@" >>{log}')
    environment = only(tmp_path, "bash", "env", "dirname", "id", "tr")
    command = ["bash", str(CI / "install")]
    subprocess.run([*command, "bash", "env"], env=environment, check=True, timeout=60)
    assert not log.exists()
    subprocess.run([*command, "bash", "gcc", "chromium"], env=environment, check=True, timeout=60)
    asked = [line.split("recommends ")[-1] for line in log.read_text().splitlines()]
    assert asked == ["-qq update", "gcc libc6-dev chromium fonts-dejavu-core"]


@pytest.mark.servers
def test_install_builds_programs_of_go(tmp_path: Path) -> None:
    """Go builds the missing ones of helm, kube-score and actionlint in a pinned version. They need no package."""
    log = tmp_path / "log"
    program(tmp_path / "go", f'echo "$@" >>{log}')
    program(tmp_path / "sudo", f'echo "$@" >>{log}')
    program(tmp_path / "install", f'echo "copied ${{1##*/}}" >>{log}')
    program(tmp_path / "helm", "exit")
    environment = only(tmp_path, "bash", "env", "dirname", "id", "tr", "mktemp", "rm")
    command = ["bash", str(CI / "install"), "helm", "kube-score", "actionlint"]
    subprocess.run(command, env=environment, check=True, timeout=60)
    first, second, *_ = [line for line in log.read_text().splitlines() if line.startswith("install github")]
    assert re.fullmatch(r"install github\.com/zegl/kube-score/cmd/kube-score@v[\d.]+", first)
    assert re.fullmatch(r"install github\.com/rhysd/actionlint/cmd/actionlint@v[\d.]+", second)


FAKE_GO = """
for last in "$@"; do :; done
case "$1 $2" in
  "mod download") printf '{\\n\\t"Path": "%s",\\n\\t"Dir": "%s",\\n\\t"Sum": ""\\n}\\n' "$last" "SOURCES/${last%@*}" ;;
  get*) echo "$last" >>LOG ;;
  tool*) touch all_servicemonitors.yaml all_prometheusrules.yaml ;;
  build*)
    echo "$last" >>LOG
    [ ! -e go.mod ] || cat go.mod >LOG.mod
    while [ "$1" != -o ]; do shift; done
    to=$2
    shift 2
    for each in "$@"; do
      case $to in */) touch "$to${each##*/}" ;; *) touch "$to" ;; esac
    done ;;
esac
"""


def build_kubernetes(tmp_path: Path, *options: str) -> list[str]:
    """Run `.ci/api-server` with a program in place of Go. Return the packages that it has built or downloaded."""
    for folder, file in (
        ("k8s.io/kubernetes", "go.sum"),
        ("sigs.k8s.io/gateway-api/config/crd/standard", "gateway_httproutes.yaml"),
        ("github.com/kedacore/keda/v2/config/crd/bases", "keda.sh_scaledobjects.yaml"),
        ("github.com/external-secrets/external-secrets/config/crds/bases", "external-secrets.io_externalsecrets.yaml"),
        ("github.com/traefik/traefik/v3", "go.sum"),
        ("github.com/go-acme/lego/v5/providers/dns", "providers.go"),
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / file).touch()
    module = "module k8s.io/kubernetes\nreplace k8s.io/api => ./staging/src/k8s.io/api\n"
    (tmp_path / "k8s.io" / "kubernetes" / "go.mod").write_text(module)
    required = "module github.com/traefik/traefik/v3\n\n\tgithub.com/go-acme/lego/v5 v5.4.1\n"
    (tmp_path / "github.com" / "traefik" / "traefik" / "v3" / "go.mod").write_text(required)
    log = tmp_path / "log"
    program(tmp_path / "bin" / "go", FAKE_GO.replace("SOURCES", str(tmp_path)).replace("LOG", str(log)))
    (tmp_path / "to").mkdir()
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = run(str(CI / "api-server"), *options, str(tmp_path / "to"), PATH=path)
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines()


@pytest.mark.servers
def test_api_server_builds_kubernetes_from_its_modules(tmp_path: Path) -> None:
    """`.ci/api-server` builds the programs with the published modules, and installs them with the types of others."""
    etcd, controllers, types, generator = build_kubernetes(tmp_path)
    lines = (tmp_path / "log.mod").read_text().splitlines()
    assert lines[0] == "module programs"
    (version,) = re.findall(r"^require k8s\.io/kubernetes v1\.([\d.]+)$", lines[-1])
    assert lines[1] == f"replace k8s.io/api => k8s.io/api v0.{version}"
    assert (etcd, controllers) == ("go.etcd.io/etcd/server/v3", "k8s.io/kubernetes/cmd/kube-controller-manager")
    assert re.search(r"/monitoring/v1@v[\d.]+$", types)
    assert re.search(r"/controller-gen@v[\d.]+$", generator)
    assert (tmp_path / "to" / "bin" / "kube-apiserver").exists()
    assert len(list((tmp_path / "to" / "share" / "kube-apiserver").glob("*.yaml"))) == 5


@pytest.mark.servers
def test_api_server_also_builds_what_nodes_need(tmp_path: Path) -> None:
    """With `--nodes`, `.ci/api-server` builds the programs of a control plane, of a node and of pods."""
    build_kubernetes(tmp_path, "--nodes")
    built = {
        folder: {each.name for each in (tmp_path / "to" / folder).iterdir()} for folder in ("lib/node", "lib/pods")
    }
    runtime = {"containerd", "containerd-shim-runc-v2", "ctr", "bridge", "host-local", "loopback"}
    assert built == {
        "lib/node": {"kubelet", "kube-proxy"} | runtime,
        "lib/pods": {"coredns", "metrics-server", "pause", "traefik"},
    }
    assert {"kube-scheduler", "kubectl"} < {each.name for each in (tmp_path / "to" / "bin").iterdir()}


@pytest.mark.servers
def test_cluster_uses_the_engine_of_the_kit(tmp_path: Path) -> None:
    """`.ci/cluster` starts the engine of the kit, and not the one that `DOCKER_HOST` names, for example of a Swarm."""
    script = tmp_path / "project" / ".ci" / "cluster"
    script.parent.mkdir(parents=True)
    shutil.copy(CI / "cluster", script)
    log = tmp_path / "log"
    program(tmp_path / "shared" / "kit" / "dockerd-up.sh", f'echo "the kit, ${{DOCKER_HOST-no other}}" >{log}; exit 1')
    program(tmp_path / "anyreplica" / "kubernetes" / "lib" / "node" / "kubelet", "exit 1")
    folders = {"XDG_CACHE_HOME": str(tmp_path), "SWARM_LAB": str(tmp_path / "lab")}
    run("bash", str(script), "up", DOCKER_HOST="tcp://192.0.2.1:2375", **folders)
    assert log.read_text() == "the kit, no other\n"


@pytest.mark.servers
@pytest.mark.parametrize(
    ("command", "family", "said"),
    [
        ("env", "4", "no cluster is up; start one with"),
        ("start", "4", "no cluster is up; start one with"),
        ("up", "5", "CLUSTER_FAMILY=5: must be 4 or 6"),
    ],
)
def test_cluster_says_what_is_wrong(tmp_path: Path, command: str, family: str, said: str) -> None:
    """Without a cluster, or with a wrong family, `.ci/cluster` fails with one line that says why."""
    variables = {**os.environ, "SWARM_LAB": str(tmp_path), "CLUSTER_FAMILY": family}
    done = subprocess.run(
        [CI / "cluster", command, "3"], env=variables, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stdout == ""


@pytest.mark.needs("docker")
@pytest.mark.alone
def test_swarm_makes_a_manager_of_the_engine() -> None:
    """`.ci/swarm` makes the engine a manager of a Swarm, and a second run changes nothing."""
    managed = docker("info", "--format", "{{.Swarm.ControlAvailable}}") == "true"
    try:
        subprocess.run([CI / "swarm"], check=True, capture_output=True, timeout=60)
        assert docker("info", "--format", "{{.Swarm.LocalNodeState}} {{.Swarm.ControlAvailable}}") == "active true"
        again = subprocess.run([CI / "swarm"], check=True, capture_output=True, text=True, timeout=60)
        assert again.stdout == "The engine manages a Swarm already.\n"
    finally:
        if not managed:
            docker("swarm", "leave", "--force")

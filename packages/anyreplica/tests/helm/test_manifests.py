"""`make k8s`: the chart as plain manifests."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from conftest import ROOT, environment


def make(folder: Path, *arguments: str, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    """Run `make k8s`, which writes into the folder."""
    command = ["make", "k8s", f"MANIFESTS={folder / 'k8s.yaml'}", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment(PATH=path), capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.needs("helm")
def test_it_writes_valid_manifests_without_a_secret(tmp_path: Path) -> None:
    """The manifests are valid, have the names of the project, and the comment at the top creates the Secret."""
    done = make(tmp_path, "NAME=shop", "IMAGE=registry.example.com:5000/shop:2")
    assert done.returncode == 0, done.stderr
    assert f"Wrote {tmp_path / 'k8s.yaml'}." in done.stdout
    text = (tmp_path / "k8s.yaml").read_text()
    found = [each for each in yaml.safe_load_all(text) if each]
    assert {each["kind"] for each in found} == {"Deployment", "PodDisruptionBudget", "Service"}
    for each in found:
        kubernetes_validate.validate(each, "1.37", strict=True)
        assert each["metadata"]["name"].startswith("shop")
    (deployment,) = [each for each in found if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example.com:5000/shop:2"
    (line,) = [line for line in text.splitlines() if line.startswith("#   kubectl create secret generic")]
    name = shlex.split(line.removeprefix("#"))[4]
    assert [source["secret"]["name"] for source in pod["volumes"][1]["projected"]["sources"]] == [name]


@pytest.mark.needs("helm")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--set redis.minimal.enabled=true", "make k8s writes no secrets into a file"),
        ("--set replicaCount=three", "at '/replicaCount': got string, want integer"),
    ],
)
def test_a_failure_leaves_no_file(tmp_path: Path, flags: str, message: str) -> None:
    """Wrong values, and values that would write a secret into the file, are refused, and no file is left."""
    done = make(tmp_path, f"HELM_FLAGS={flags}")
    assert done.returncode != 0
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


def test_without_helm_it_says_what_is_missing(tmp_path: Path) -> None:
    """Without helm on PATH, `make k8s` prints one line that says where to get it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("make", "sh", "bash", "dirname", "mkdir", "python3", "awk"):
        (programs / name).symlink_to(shutil.which(name) or name)
    done = make(tmp_path, path=str(programs))
    assert done.returncode != 0
    first, *_ = done.stderr.splitlines()
    assert first == "make k8s needs the program helm: https://helm.sh/docs/intro/install/"
    assert not (tmp_path / "k8s.yaml").exists()

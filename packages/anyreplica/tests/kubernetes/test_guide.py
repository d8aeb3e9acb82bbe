"""The commands of the guide "Deploy to Kubernetes", word by word, in one order: from nothing to nothing.

Only what differs for every reader is replaced: the name of the image, and the port of this machine.
"""

import base64
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ROOT, environment, free_port, until
from tests.kubernetes.release import IMAGE, NAME, Release, kubectl, run

pytestmark = pytest.mark.timeout(900)

PAGE = (ROOT / "docs" / "guides" / "deploy-to-kubernetes.md").read_text()
BLOCKS = [
    re.sub(r"^ {4}", "", found, flags=re.MULTILINE) for found in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
]
VALUES = re.search(r"`--values my\.yaml`:\n\n```yaml\n(.*?)```", PAGE, re.DOTALL)


def block(words: str) -> str:
    """Return the only block of commands on the page that has these words."""
    (found,) = [each for each in BLOCKS if words in each]
    return found


def inline(words: str) -> str:
    """Return a command that the text of the page has."""
    assert f"`{words}`" in PAGE, words
    return words


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A project's folder with the chart and the values of the page. Its release is removed afterwards.

    During the test, the release of the other tests has no replicas: the nodes do not have enough CPU for both.
    """
    other = Release() if run("helm", "list", "--short", "--filter", f"^{NAME}$") else None
    if other:
        other.scale(0)
    try:
        (tmp_path / "deploy").symlink_to(ROOT / "deploy")
        assert VALUES
        # The minimal Redis of the chart is an image that the nodes cannot pull.
        redis = f"redis:\n  minimal:\n    image: {IMAGE}:services\n"
        (tmp_path / "my.yaml").write_text(own(VALUES[1]) + redis)
        yield tmp_path
        run("helm", "uninstall", "my-server", "--ignore-not-found", "--wait")
        kubectl("delete", "secret", "my-server-secrets", "my-server-keys", "--ignore-not-found")
    finally:
        if other:
            other.scale(3)


def own(text: str) -> str:
    """Replace the image of the page."""
    return (
        text.replace("registry.example.com/my-server", IMAGE)
        .replace("image.tag=1", "image.tag=good")
        .replace('tag: "1"', 'tag: "good"')
    )


def shell(folder: Path, commands: str) -> str:
    """Run commands of the page in a folder, and return what they print. They must succeed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", own(commands)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, commands + done.stdout + done.stderr
    return done.stdout


def pods(component: str = "replica") -> int:
    """Return the number of pods of the release."""
    chosen = f"app.kubernetes.io/instance=my-server,app.kubernetes.io/component={component}"
    return len(kubectl("get", "pods", "--selector", chosen, "--output", "name").splitlines())


def test_each_block_of_the_page_is_run() -> None:
    """A test of this file runs each block of commands, except for the one that pushes an image."""
    words = re.findall(r'block\("(.+?)"\)', Path(__file__).read_text())
    (push,) = [each for each in BLOCKS if not any(word in each for word in words)]
    assert "docker push" in push


@pytest.mark.slow
@pytest.mark.needs("cluster")
def test_from_nothing_to_a_release_with_workers(folder: Path) -> None:
    """Install, call every component, give secrets, add Redis and workers, scale, go back, look, and remove."""
    assert "Your client's URL" in shell(folder, block("--set image.repository=registry"))
    assert pods() == 3
    call_every_component()
    shell(folder, block("kubectl create secret generic"))
    shell(folder, block("--set redis.minimal.enabled=true"))
    until(lambda: pods() == 4, "four replicas", 120)
    assert pods("worker") == 2
    data = kubectl("get", "secret", "my-server-secrets", "--output", "jsonpath={.data.auth_token}")
    call_every_component(MCP_TOKEN=base64.b64decode(data).decode())
    assert "deployment.apps/my-server restarted" in shell(
        folder, inline("kubectl rollout restart deployment/my-server")
    )
    shell(folder, "kubectl rollout status deployment/my-server --timeout=300s")
    assert "Running" in shell(folder, inline("kubectl describe pods -l app.kubernetes.io/component=replica"))
    shell(folder, block("kubectl scale"))
    scaler = kubectl("get", "hpa", "my-server", "--output", "jsonpath={.spec.minReplicas} {.spec.maxReplicas}")
    assert scaler.split() == ["2", "10"]
    back = "helm upgrade my-server deploy/helm/anyreplica --values my.yaml --force-conflicts --wait --timeout 5m"
    shell(folder, back)
    until(lambda: pods() == 4, "four replicas", 120)
    assert "Rollback was a success" in shell(folder, inline("helm rollback my-server"))
    shell(folder, block("helm uninstall"))
    until(
        lambda: left() == ["secret/my-server-secrets"], lambda: f"only a secret of the user is left, not {left()}", 120
    )


def left() -> list[str]:
    """Return the objects of the release and all Secrets of its name."""
    release = kubectl("get", "all", "--selector", "app.kubernetes.io/instance=my-server", "--output", "name").split()
    secrets = kubectl("get", "secrets", "--output", "name").split()
    return release + [each for each in secrets if "my-server" in each]


def call_every_component(**variables: str) -> None:
    """Run the two commands of the page for the first call, with environment variables."""
    forward, check = block("kubectl port-forward").splitlines()
    port = free_port()
    with subprocess.Popen(forward.replace("8150", str(port)).split(), stdout=subprocess.PIPE, text=True) as forwarding:
        try:
            assert forwarding.stdout is not None
            assert "Forwarding from" in forwarding.stdout.readline()
            env = environment(PORT=str(port), **variables)
            done = subprocess.run(check.split(), cwd=ROOT, env=env, capture_output=True, text=True, check=False)
            assert "All steps passed" in done.stdout, done.stdout + done.stderr
        finally:
            forwarding.terminate()


@pytest.mark.slow
@pytest.mark.needs("cluster")
def test_plain_manifests(tmp_path: Path) -> None:
    """`make k8s` writes a file whose first lines say what to do. It runs without Helm, and leaves nothing behind."""
    command = block("make k8s").replace("my.yaml", str(tmp_path / "my.yaml")).replace(":1 ", ":good ")
    (tmp_path / "my.yaml").write_text("names: {fullName: plain}\n")
    file = tmp_path / "k8s.yaml"
    shell(ROOT, command.replace("make k8s", f"make k8s MANIFESTS={file} NAME=plain"))
    first = [line.removeprefix("#   ") for line in file.read_text().splitlines() if line.startswith("#   kubectl")]
    assert len(first) == 2
    secret = first[0].split()[4]
    try:
        for line in first:
            shell(ROOT, line)
        shell(ROOT, "kubectl rollout status deployment/plain --timeout=300s")
    finally:
        kubectl("delete", "--filename", str(file))
        kubectl("delete", "secret", secret)

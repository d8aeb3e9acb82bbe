"""Tests of the names: the package is anyreplica, and only the stack and its image have the older name `mcp-swarm`."""

import html
import json
import re
import subprocess
import tomllib
from importlib.metadata import entry_points

import yaml

import anyreplica
from conftest import PACKAGE, ROOT

_OLD = re.compile(r"mcp[-_ ]?swarm", re.IGNORECASE)
_ALLOWED = (
    re.compile(r"mcp-swarm_(?:[a-z]+\b|\{)"),  # a service of the stack
    re.compile(r"mcp-swarm:(?:latest|dev|test|no-jobs|test-extras|[0-9a-f]{12}|[\d.]+)(?![\w.])"),  # the image
    re.compile(
        r"(?:docker stack ps(?: --no-trunc)? |docker image ls |filter name=|the names? `|have the name `|The stack '|"
        r"desired-state=running |parts of the stack |found in stack: |"
        r"--transport http |-c stack\.yml |default: |as '|^')mcp-swarm(?![\w:-])"
    ),
    re.compile(
        r"(?:^NAME \?= |^STACK = \"|\"STACK\", \"|"
        r"assert \"'|`image\.repository` \| `\"|^  repository: )mcp-swarm(?![\w:-])"
    ),
    re.compile(r"/mcp-swarm:1\b"),  # the image in a registry
    re.compile(r"'mcp-swarm' serves on "),
)
_TESTS = {
    "packages/anyreplica/tests/docs/test_installations.py",  # must find an installation of the old package
    "packages/anyreplica/tests/swarm/test_operate.py",  # puts another stack in place of the one of the page
    "packages/anyreplica/tests/template/test_names.py",
    "packages/anyreplica/tests/downstream/exchange/authorization_server.py",  # a client's name that has a space
}


def test_only_the_stack_and_its_image_have_the_old_name() -> None:
    """The old name of the package belongs to a stranger's program on the index, so nothing may name it as ours."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = []
    for name in set(listed.splitlines()) - _TESTS - {".github/renovate.json"}:
        assert not _OLD.search(name), name
        if name.endswith((".png", ".ico")) or not (ROOT / name).is_file():
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            rest = html.unescape(line).replace("\xa0", " ") if name.endswith(".svg") else line
            for allowed in _ALLOWED:
                rest = allowed.sub("", rest)
            if _OLD.search(rest):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert sorted(found) == []


def test_the_package_has_its_name_everywhere() -> None:
    """Distribution, import package, command, chart and the labels of the autoscaler have the name `anyreplica`."""
    with (PACKAGE / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    assert project["name"] == PACKAGE.name == anyreplica.__name__ == "anyreplica"
    assert project["scripts"] == {"anyreplica": "anyreplica.cli.main:main"}
    (command,) = {each.value for each in entry_points(group="console_scripts", name="anyreplica")}
    assert command == "anyreplica.cli.main:main"
    assert yaml.safe_load((ROOT / "deploy/helm/anyreplica/Chart.yaml").read_text())["name"] == "anyreplica"
    overlay = yaml.safe_load((ROOT / "deploy" / "autoscale.yml").read_text())
    assert all(label.startswith("anyreplica.autoscale") for label in overlay["services"]["mcp"]["deploy"]["labels"])


def test_the_image_of_the_stack_has_one_name() -> None:
    """Stack, chart and Makefile use the image `mcp-swarm`, and Renovate looks for it in no registry."""
    image = yaml.safe_load((ROOT / "stack.yml").read_text())["services"]["mcp"]["image"]
    assert image == "${IMAGE:-mcp-swarm:latest}"
    values = yaml.safe_load((ROOT / "deploy/helm/anyreplica/values.yaml").read_text())
    assert values["image"]["repository"] == "mcp-swarm"
    rules = json.loads((ROOT / ".github" / "renovate.json").read_text())["packageRules"]
    (own,) = [rule for rule in rules if "own image" in rule["description"]]
    assert own["matchPackageNames"] == ["mcp-swarm"]
    assert own["enabled"] is False


def test_copier_renders_only_three_files() -> None:
    """Copier would also render a file of the package that ends with .jinja, and then no project could be made."""
    listed = subprocess.run(["git", "ls-files", "*.jinja"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(listed.splitlines()) == {
        "README.md.jinja",
        "locks/anyreplica.txt.jinja",
        "{{_copier_conf.answers_file}}.jinja",
    }

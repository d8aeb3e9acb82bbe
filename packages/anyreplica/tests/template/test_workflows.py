"""Tests of the GitHub workflows: their form and their commands."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import PACKAGE, ROOT, run

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TESTS = "packages/anyreplica/tests/template"
RUN_BY = {
    ".ci/run": {
        *(".ci/locks", "packages/anyreplica/tests/swarm/images.sh"),
        *(f"make {target}" for target in ("image", "lint", "test-all", "test-system", "test-swarm", "test-versions")),
        "make packages/anyreplica/tests/conformance/node_modules/.ready",
    },
    "packages/anyreplica/tests/helm/test_kubernetes_script.py": {".ci/kubernetes"},
    f"{TESTS}/test_ci.py": {".ci/api-server", ".ci/install", ".ci/swarm"},
    f"{TESTS}/test_release.py": {".ci/release", "make sbom"},
    f"{TESTS}/test_template.py": {"make check", "make test"},
    f"{TESTS}/test_wheel.py": {"make wheel"},
    f"{TESTS}/test_workflows.py": {"actionlint"},
}
"""Each file that runs commands of a workflow, and these commands."""


def load(file: Path) -> dict[Any, Any]:
    """Return the content of a YAML file."""
    loaded: dict[Any, Any] = yaml.safe_load(file.read_text())
    return loaded


def jobs() -> dict[str, dict[str, Any]]:
    """Return all jobs, named after the workflow and the job."""
    return {f"{file.stem}.{name}": job for file in WORKFLOWS for name, job in load(file)["jobs"].items()}


def steps() -> list[dict[str, Any]]:
    """Return the steps of all jobs."""
    return [step for job in jobs().values() for step in job.get("steps", [])]


def commands(script: str) -> set[str]:
    """Return the commands of a step: each target of make, or the program without its arguments."""
    found = set()
    for line in script.strip().splitlines():
        program, *arguments = line.split()
        found |= {f"make {target}" for target in arguments} if program == "make" else {program}
    return found


@pytest.mark.servers
def test_each_command_is_run_here() -> None:
    """Each command of a workflow exists, and `.ci/run` or a test runs the same command."""
    found = {command for step in steps() for command in commands(step.get("run", ""))}
    assert found == set().union(*RUN_BY.values())
    for file, command in ((file, each) for file, commands in RUN_BY.items() for each in commands):
        program, _, target = command.partition(" ")
        assert program in ("make", "actionlint") or os.access(ROOT / program, os.X_OK), program
        name = re.escape(target or Path(program).name)
        runs = re.search(rf"(?<![\w-]){name}(?![\w-])", (ROOT / file).read_text())
        assert runs, f"{file} does not run {command}"
        if target:
            done = run("make", "--dry-run", "--old-file=.venv/.serves", "--old-file=.venv/.ready", target)
            assert done.returncode == 0, done.stderr


def test_a_pull_request_is_tested_on_each_supported_python() -> None:
    """CI tests each Python version of the package's classifiers, and each job has a time limit of ten minutes."""
    with (PACKAGE / "pyproject.toml").open("rb") as file:
        classifiers = tomllib.load(file)["project"]["classifiers"]
    ci = load(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    versions = ci["test"]["strategy"]["matrix"]["python"]
    assert [f"Programming Language :: Python :: {version}" for version in versions] == classifiers
    assert {job["timeout-minutes"] for job in ci.values()} == {10}


def test_actions_are_pinned_to_a_commit() -> None:
    """Each action is pinned to a commit, with its version in a comment. Renovate updates both."""
    lines = [line.strip().removeprefix("- ") for file in WORKFLOWS for line in file.read_text().splitlines()]
    used = [line for line in lines if line.startswith("uses:") and not line.startswith("uses: ./")]
    assert len(used) == sum("uses" in step for step in steps())
    commits: dict[str, set[str]] = {}
    for line in used:
        found = re.fullmatch(r"uses: ([\w.-]+/[\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)", line)
        assert found, f"{line}: an action needs the 40 digits of a commit, and a comment such as # v7.0.1"
        commits.setdefault(f"{found[1]} {found[3]}", set()).add(found[2])
    assert {name: found for name, found in commits.items() if len(found) > 1} == {}
    renovate = json.loads((ROOT / ".github" / "renovate.json").read_text())
    assert "helpers:pinGitHubActionDigestsToSemver" in renovate["extends"]


def test_permissions_are_minimal() -> None:
    """A workflow can read only, except for jobs of a release; no checkout keeps the token. A job ends in two hours."""
    for file in WORKFLOWS:
        workflow = load(file)
        assert workflow["permissions"] == {"contents": "read"}, file.name
        assert workflow["concurrency"]["group"], file.name
    for name, job in jobs().items():
        assert "uses" in job or job["timeout-minutes"] <= 120, name
    more = {name for name, job in jobs().items() if "write" in job.get("permissions", {}).values()}
    assert more == {"release.build", "release.image", "release.notes", "release.publish"}
    checkouts = [step for step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@pytest.mark.servers
@pytest.mark.needs("actionlint")
def test_actionlint_finds_nothing() -> None:
    """actionlint finds no fault in the syntax, the expressions and (with shellcheck) the scripts of the workflows."""
    done = run("actionlint")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_forms_of_issues_are_complete() -> None:
    """Each form has a name, a description and fields with different ids."""
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    assert load(folder / "config.yml") == {"blank_issues_enabled": False}
    forms = [file for file in folder.glob("*.yml") if file.name != "config.yml"]
    assert len(forms) == 2
    for file in forms:
        form = load(file)
        assert form["name"]
        assert form["description"]
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert all(field["attributes"]["label"] for field in fields)
        assert len({field["id"] for field in fields}) == len(fields)


@pytest.mark.servers
def test_renovate_updates_each_lock_and_respects_each_upper_bound() -> None:
    """Renovate updates each lock file and proposes no version that pyproject.toml excludes."""
    renovate = json.loads((ROOT / ".github" / "renovate.json").read_text())
    (pattern,) = renovate["pip_requirements"]["managerFilePatterns"]
    listed = run("git", "ls-files", "*.lock").stdout.splitlines()
    locks = [name for name in listed if not name.startswith("packages/anyreplica/benchmarks/")]
    assert len(locks) >= 6
    assert all(re.search(pattern.strip("/"), name) for name in locks)

    limits = {
        name: rule["allowedVersions"]
        for rule in renovate["packageRules"]
        if "allowedVersions" in rule
        for name in rule["matchPackageNames"]
    }
    for file in (ROOT / "pyproject.toml", PACKAGE / "pyproject.toml"):
        for name, bound in re.findall(r'^    "([a-z0-9-]+)[^"]*(<[0-9.]+)"', file.read_text(), re.MULTILINE):
            assert limits[name] == bound, name

    (custom,) = renovate["customManagers"]
    (match,) = custom["matchStrings"]
    found = re.search(match.replace("(?<", "(?P<"), (ROOT / ".ci" / "install").read_text())
    assert found
    assert found["depName"] == "github.com/rhysd/actionlint"

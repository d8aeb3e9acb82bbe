"""Tests of a project from the template and of its updates, with git and real tags."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, environment, run

pytestmark = pytest.mark.system

_EDITED, _DELETED = "server/tools/shout.py", "server/tools/shout_again.py"
"""Two tools that the tests add (a clone may have no samples). The user edits one and deletes the other."""
_TOOL = '''"""A sample tool."""

from fastmcp.tools import tool


@tool
async def {name}(text: str) -> str:
    """Say it loudly."""
    words = text.strip()
    if not words:
        return ""

    return text.upper()
'''


def git(folder: Path, *arguments: str) -> str:
    """Run git and return its output."""
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments]
    own = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return subprocess.run(command, cwd=folder, env=own, stdout=subprocess.PIPE, text=True, check=True).stdout


def commit(folder: Path, message: str) -> None:
    """Commit all files."""
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", message)


def copier(*arguments: str) -> None:
    """Run copier without questions."""
    done = try_copier(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def try_copier(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run copier without questions, and return what it did."""
    command = [sys.executable, "-m", "copier", *arguments, "--defaults", "--quiet", "--trust"]
    names = {f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return run(*command, **names)


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in a project."""
    command = ["make", f"PYTHON={sys.base_prefix}/bin/python3", "VENV=.venv", *arguments]
    options: Any = {"cwd": folder, "env": environment(), "timeout": 500}
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def edit(file: Path, before: str, after: str) -> None:
    """Replace a text that occurs once."""
    text = file.read_text()
    assert text.count(before) == 1, f"{file} contains {before!r} {text.count(before)} times instead of once"
    file.write_text(text.replace(before, after))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this repository with the tag v0.2.0."""
    return copied_into(tmp_path_factory.mktemp("template"))


def copied_into(folder: Path) -> Path:
    """Copy this repository into a folder, with the tag v0.2.0, and return the folder."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name in (_EDITED, _DELETED):
        (folder / name).write_text(_TOOL.format(name=Path(name).stem))
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "A")
    git(folder, "tag", "v0.2.0")
    return folder


def project(template: Path, folder: Path, *data: str) -> Path:
    """Make a project of version 0.2.0 and commit it."""
    copier("copy", f"git+file://{template}", str(folder), "--vcs-ref=v0.2.0", *(f"--data={each}" for each in data))
    git(folder, "init", "-q", "-b", "main")
    commit(folder, "From the template")
    return folder


def without_port() -> dict[str, str]:
    """Return the environment without the port of a run of make."""
    return {name: value for name, value in environment().items() if name != "PORT"}


_NAMES_A_FILE = re.compile(
    r"(?<![\w/.*-])(?:\.ci|deploy|docs|examples|packages|server|tests)/[\w./-]+\.\w+|LICENSE|CHANGELOG"
)
"""A text that can only be the name of a file of the project."""


@pytest.mark.parametrize("deploy", ["swarm", "kubernetes", "both"])
def test_a_project_is_small_and_named(template: Path, tmp_path: Path, deploy: str) -> None:
    """A new project has its own name, at most 90 files, and only what it needs for the place where it runs."""
    made = project(template, tmp_path / "shop", "port=8222", f"deploy={deploy}")
    listed = git(made, "ls-files").splitlines()
    assert len(listed) <= 90
    if deploy == "swarm":  # without the two tools that the tests add
        assert f"| {len(listed) - 2}, one of them our package |" in (ROOT / "README.md").read_text()
    odd = ("docs/", "examples", "copier.yml", ".github/", "packages/anyreplica/")
    papers = ("CONTRIBUTING", "LICENSE", "SECURITY", "TODO")
    assert not [name for name in listed if name.startswith(odd + papers) or name.endswith(".jinja")]
    assert [name for name in listed if name.startswith("packages/")] == ["packages/anyreplica-0.2.0-py3-none-any.whl"]
    assert [name for name in listed if name.startswith(".ci/")] == [".ci/audit", ".ci/pins"]
    assert "server/Dockerfile.dockerignore" in listed
    runs_on = {"swarm": "stack.yml" in listed, "kubernetes": "deploy/helm/anyreplica/templates/_helpers.tpl" in listed}
    assert runs_on == {"swarm": deploy != "kubernetes", "kubernetes": deploy != "swarm"}
    for name in set(listed) - {".copier-answers.yml"}:
        text = (made / name).read_text() if not name.endswith(".whl") else ""
        places = (made, (made / name).parent)
        missing = {each for each in _NAMES_A_FILE.findall(text) if not any((at / each).exists() for at in places)}
        assert not missing, f"{name} names files that the project does not have: {sorted(missing)}"
    assert (made / "README.md").read_text().startswith("# shop\n")
    shown = make(made, "help").stdout
    assert "shop: an MCP server" in shown
    assert "PORT=8222" in shown
    assert "test-all" not in shown
    targets = {target for target in ("deploy", "k8s") if f"  make {target} " in shown}
    assert targets == {"swarm": {"deploy"}, "kubernetes": {"k8s"}, "both": {"deploy", "k8s"}}[deploy]
    told = make(made, "--eval=tell: ; @echo $$MCP_NAME $$PORT", "tell")  # as `make deploy` sets them for stack.yml
    assert told.stdout == "shop 8222\n"
    for name in ("test_mcp_client.py", "test_swarm_load.py"):  # no server runs there, and the error names the port
        done = subprocess.run(
            [sys.executable, name], cwd=made, env=without_port(), capture_output=True, text=True, check=False
        )
        assert (done.returncode, "http://localhost:8222/mcp" in done.stderr) == (2, True), done.stdout + done.stderr


def test_a_template_with_changes_is_refused(template: Path, tmp_path: Path) -> None:
    """A project that copier could not update later is not made."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(template), str(clone))
    (clone / "server" / "tools" / "mine.py").write_text(_TOOL.format(name="mine"))
    done = try_copier("copy", str(clone), str(tmp_path / "shop"), "--vcs-ref=HEAD")
    assert done.returncode != 0
    assert "The template has changes that are not committed" in done.stderr
    assert not (tmp_path / "shop").exists()


def test_a_project_with_the_source(template: Path, tmp_path: Path) -> None:
    """A project can have the source of anyreplica instead of the wheel. It then installs the source."""
    made = project(template, tmp_path / "shop", "package=source")
    listed = git(made, "ls-files").splitlines()
    odd = ("packages/anyreplica/benchmarks", "packages/anyreplica/tests", "packages/anyreplica-")
    assert not [name for name in listed if name.startswith(odd)]
    assert {"packages/anyreplica/LICENSE", "packages/anyreplica/src/anyreplica/app.py", "locks/build.lock"} <= set(
        listed
    )
    done = make(made, "check")
    assert done.stdout.startswith("shop 0."), done.stdout + done.stderr


def test_a_project_works_and_takes_an_update(template: Path, tmp_path: Path) -> None:
    """A project passes its tests, adds a dependency, and takes an update that keeps edits and marks conflicts."""
    made = project(template, tmp_path / "shop")
    done = make(made, "check")
    assert done.stdout.startswith("shop 0."), done.stdout + done.stderr
    assert "for the server (only once, about 20 s) …" in done.stderr
    assert "tests and linters" not in done.stderr
    installed = {file.name for file in (made / ".venv" / "bin").iterdir()}
    assert "uvicorn" in installed
    assert not installed & {"mypy", "pytest", "ruff", "uv"}, "a server needs no tests and no linters"
    for target in ("test", "lint"):
        done = make(made, target)
        assert done.returncode == 0, done.stdout + done.stderr

    # The user edits some files and deletes all samples.
    for folder in ("tools", "resources", "prompts", "jobs"):
        for file in (made / "server" / folder).glob("*.py"):
            if file.name != "__init__.py" and file != made / _EDITED:
                file.unlink()
    assert not (made / _DELETED).exists()
    edit(made / _EDITED, "Say it loudly.", "Say it very loudly.")
    edit(made / "stack.yml", "services:\n", "# mine\nservices:\n")
    edit(made / "deploy/swarm.mk", "DEPLOY_SECONDS ?= 600", "DEPLOY_SECONDS ?= 900")
    before, needed = pins(made), (made / "pyproject.toml").read_text()
    done = make(made, "add", "PACKAGE=nltk==0.0.0.1")
    assert done.returncode != 0
    assert (made / "pyproject.toml").read_text() == needed, "a failed command leaves the file unchanged"
    done = make(made, "add", "PACKAGE=nltk")
    assert done.returncode == 0, done.stdout + done.stderr
    after = pins(made)
    assert "nltk" in after
    assert {name: version for name, version in after.items() if name in before} == before
    commit(made, "Mine")

    # The next version of the template.
    git(template, "checkout", "-q", "-B", "next", "v0.2.0")
    edit(template / "deploy/swarm.mk", "DEPLOY_SECONDS ?= 600", "DEPLOY_SECONDS ?= 700")
    with (template / "stack.yml").open("a") as stack:
        stack.write("# new\n")
    edit(template / "packages/anyreplica/src/anyreplica/_version.py", "0.2.0", "0.3.0")
    edit(template / "packages/anyreplica/pyproject.toml", 'version = "0.2.0"', 'version = "0.3.0"')
    for name in (_EDITED, _DELETED):
        edit(template / name, "text.upper()", "text.upper() + '!'")
    (template / "server/tools/whisper.py").write_text(_TOOL.format(name="whisper"))
    commit(template, "B")
    git(template, "tag", "--force", "v0.3.0")

    copier("update", str(made))
    # Deleted files stay deleted, and the new file of the next version is added.
    tools = sorted(file.name for file in (made / "server/tools").glob("*.py"))
    assert tools == ["__init__.py", "shout.py", "whisper.py"]
    shout = (made / _EDITED).read_text()
    assert "Say it very loudly." in shout
    assert "text.upper() + '!'" in shout
    assert "# mine" in (made / "stack.yml").read_text()
    assert "# new" in (made / "stack.yml").read_text()
    assert [file.name for file in (made / "packages").iterdir()] == ["anyreplica-0.3.0-py3-none-any.whl"]
    assert '"nltk' in (made / "pyproject.toml").read_text()
    conflict = (made / "deploy/swarm.mk").read_text()
    assert "<<<<<<<" in conflict
    assert "DEPLOY_SECONDS ?= 900" in conflict
    assert "DEPLOY_SECONDS ?= 700" in conflict
    kept = [line for line in conflict.splitlines() if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
    (made / "deploy/swarm.mk").write_text("\n".join(line for line in kept if line != "DEPLOY_SECONDS ?= 700") + "\n")
    done = make(made, "locks", "test")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name: version for name, version in pins(made).items() if name in after} == after


def pins(folder: Path) -> dict[str, str]:
    """Return the pinned versions by name."""
    locks = "".join(lock.read_text() for lock in (folder / "locks").glob("*.lock"))
    return dict(re.findall(r"^(\S+)==(\S+)", locks, re.MULTILINE))


def test_anyreplica_as_a_requirement(template: Path, tmp_path: Path) -> None:
    """A project can use anyreplica as a requirement instead of its source; here from a wheel."""
    wheels = tmp_path / "wheels"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*build, str(wheels), str(template / "packages/anyreplica")], check=True, timeout=120)
    (wheel,) = wheels.glob("*.whl")
    made = project(template, tmp_path / "shop", "package=requirement", f"requirement=anyreplica @ file://{wheel}")
    assert not (made / "packages").exists()
    done = make(made, "test")
    assert done.returncode == 0, done.stdout + done.stderr
    before = pins(made)
    done = make(made, "add", "PACKAGE=nltk")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {name: version for name, version in pins(made).items() if name in before} == before

"""No page, script, workflow or message installs what a stranger may publish under this name.

A name that nobody of this project has registered can belong to anybody at any time. So a text may install by its name
only what the repository itself depends on, which the locks and `make lint` check.
"""

import functools
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, run
from tests.docs.installations import installed

TOOLS = {
    "nltk": "the example of a dependency of the reader's own tools",
    "@modelcontextprotocol/inspector": "the page of the MCP project in which people try a server",
}
"""Names of the index that are no dependency of the repository, and why a text may install them."""
_SKIPPED = (".lock", "package-lock.json", ".svg", ".png", ".ico", "tests/docs/test_installations.py")


@functools.cache
def texts() -> dict[str, str]:
    """Return all tracked texts by their path."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.splitlines() if not name.endswith(_SKIPPED)]
    return {name: (ROOT / name).read_text() for name in names if (ROOT / name).is_file()}


def projects() -> list[dict[str, Any]]:
    """Return each pyproject.toml of the repository."""
    return [tomllib.loads(text) for name, text in texts().items() if name.endswith("pyproject.toml")]


def normal(requirement: str) -> str:
    """Return the normal form of the name in a requirement."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[._-]+", "-", found[0]).lower()


@functools.cache
def known() -> dict[str, set[str]]:
    """Return the names that a text may install, by registry."""
    names, built = set(TOOLS), set()
    for project in projects():
        table = project["project"]
        groups = [table.get("dependencies", []), *table.get("optional-dependencies", {}).values()]
        groups += [*project.get("dependency-groups", {}).values(), project.get("build-system", {}).get("requires", [])]
        names |= {normal(each) for group in groups for each in group}
        built.add(normal(table["name"]))
    packages = [json.loads(text) for name, text in texts().items() if name.endswith("package.json")]
    return {"pypi": names - built, "npm": {name for each in packages for name in each["dependencies"]}}


def unknown(text: str) -> list[tuple[str, int]]:
    """Return what a text installs that nobody vouches for, and the line."""
    names = known()
    return [
        (name, line)
        for registry, name, line in installed(text)
        if (normal(name) if registry == "pypi" else name) not in names[registry] | TOOLS.keys()
    ]


@pytest.mark.servers
def test_no_text_installs_a_name_that_nobody_vouches_for() -> None:
    """Each distribution from an index is a dependency of the repository or in the short list, which is all used."""
    found = [f"{path}:{line}: {name}" for path, text in texts().items() for name, line in unknown(text)]
    assert not found, "installed by name, but no pyproject.toml depends on it: " + "; ".join(found)
    used = {name for text in texts().values() for _, name, _ in installed(text)}
    assert used >= TOOLS.keys()


ALLOWED = ["pip install ./anyreplica/packages/anyreplica\n", "pip install dist/anyreplica-0.2.0-py3-none-any.whl"]
ALLOWED += ['pip install "anyreplica @ git+https://git.example.com/anyreplica#subdirectory=packages/anyreplica"']
ALLOWED += ["pip install --no-deps --require-hashes -r locks/server.lock", "pip install {package} $NAME <name>"]
ALLOWED += ["pip install granian", "pipx run copier copy anyreplica ../my-server", "npm ci --prefix tests"]
ALLOWED += ["npm install @modelcontextprotocol/sdk@1.32.2", "a requirement that pip installs: requirement"]
ALLOWED += [
    "make add PACKAGE=…",
    "uv run --with ./packages/anyreplica pytest",
    "uv run server.py",
    "conda install fastmcp",
]
ALLOWED += ['dependencies = ["anyreplica"]\n[tool.uv.sources]\nanyreplica = { path = "../anyreplica" }\n']
ALLOWED += [
    'dependencies = ["anyreplica @ git+https://git.example.com/anyreplica"]',
    'pip = ["-m", "pip", "install", "-q"]',
]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("pip install anyreplica\n", ["anyreplica"]),
        ("pip install 'anyreplica' 'fastmcp[tasks]'\n", ["anyreplica"]),
        ("run pip install 'anyreplica[traces]', or build the image", ["anyreplica"]),
        ("python -m pip install -q --upgrade any-replica==0.2.0", ["any-replica"]),
        ("uv pip install -r requirements.txt mcp_swarm", ["mcp_swarm"]),
        ("python -m pip --python /opt/venv/bin/python install --only-binary :all: evil", ["evil"]),
        ("pip install \\\n  --quiet \\\n  evil", ["evil"]),
        ("`uv add evil`, `uv tool install evil2` and `pipx install evil3`.", ["evil", "evil2", "evil3"]),
        ("uvx evil serve; uvx --from evil2 serve; uv tool run evil3", ["evil", "evil2", "evil3"]),
        ("pipx run evil copy . ../other", ["evil"]),
        ("npx --yes @evil/server here && npm install evil2 evil3", ["@evil/server", "evil2", "evil3"]),
        ('print("not installed: pip install evil")', ["evil"]),
        ("make add PACKAGE=evil", ["evil"]),
        ("Enter a requirement, such as anyreplica==0.2.0.", ["anyreplica"]),
        ("anyreplica[traces]>=0.2", ["anyreplica"]),
        ("RUN pip3 install evil # a comment with words", ["evil"]),
        ("uv run --with anyreplica anyreplica run server.py", ["anyreplica"]),
        ("uv run --python 3.12 --with=evil script.py", ["evil"]),
        ("fastmcp run server.py --with 'evil[traces]' --with evil2", ["evil", "evil2"]),
        ("uvx --with evil evil2 serve", ["evil", "evil2"]),
        ('subprocess.run([sys.executable, "-m", "pip", "install", "anyreplica"])', ["anyreplica"]),
        ("run(uv, 'pip', 'install', *to, 'evil==1', str(wheel))", ["evil"]),
        ('RUN ["uv", "run", "--with", "evil", "server.py"]', ["evil"]),
        ('{"command": "uvx", "args": ["--from", "evil", "serve"]}', ["evil"]),
        ('dependencies = ["anyreplica"]\n', ["anyreplica"]),
        ('[project]\ndependencies = [\n    "fastmcp>=3",\n    "evil[x] >= 2; python_version > \'3\'",\n]\n', ["evil"]),
        ('# dependencies = ["evil"]\n', ["evil"]),
        ("poetry add --group dev evil", ["evil"]),
        ("conda install -c conda-forge -n mine evil", ["evil"]),
        *((text, []) for text in ALLOWED),
    ],
)
def test_an_installation_by_an_unknown_name_is_found(text: str, names: list[str]) -> None:
    """The scan finds unknown names in all texts, but no path, URL, lock, variable or dependency of the repository."""
    assert [name for name, _ in unknown(text)] == names


@pytest.mark.servers
def test_an_installation_from_a_clone(tmp_path: Path) -> None:
    """The package of a clone installs, and its command runs. The dependencies are those of this environment."""
    left_out = shutil.ignore_patterns("tests", "node_modules", ".*")
    shutil.copytree(ROOT / "packages" / "anyreplica", tmp_path / "clone", ignore=left_out)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    local = ["--no-deps", "--no-build-isolation", "--target", str(tmp_path / "site"), str(tmp_path / "clone")]
    subprocess.run([*pip, *local], check=True, timeout=100)
    done = run(str(tmp_path / "site" / "bin" / "anyreplica"), "--version", PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr
    with (ROOT / "packages" / "anyreplica" / "pyproject.toml").open("rb") as file:
        assert done.stdout.strip() == tomllib.load(file)["project"]["version"]

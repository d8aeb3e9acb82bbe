"""Tests of the package as a wheel, in a separate environment."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from anyreplica.process.probe import alive
from conftest import ROOT, free_port, run, until
from tests.calls import call
from tests.template.test_makefile import HERE, made_by_make, make

pytestmark = [pytest.mark.system, made_by_make]

_COMMANDS = ("run", "check", "worker", "load", "keys", "audit")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs in an environment that has only the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    done = make("wheel", *HERE, f"DIST={folder}")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("anyreplica-0.2.0-py3-none-any.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    lock = str(ROOT / "locks" / "server.lock")
    subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", lock], check=True, timeout=400)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, timeout=60)
    subprocess.run([str(python), "-m", "pip", "check"], check=True, timeout=60)
    return folder / "venv" / "bin"


def test_the_command(installed: Path, tmp_path: Path) -> None:
    """Each command of the installed program has a help text, and `check` works for an app."""
    environment = {**os.environ, "COLUMNS": "100"}
    environment.pop("PYTHONPATH", None)

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        options: Any = {"cwd": tmp_path, "env": environment, "timeout": 60}
        command = [str(installed / "anyreplica"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)

    assert ask("--version").stdout == "0.2.0\n"
    overview = ask("--help")
    assert overview.returncode == 0
    for command in _COMMANDS:
        assert f"    {command} " in overview.stdout
        told = ask(command, "--help")
        assert told.returncode == 0, told.stderr
        assert told.stdout.startswith(f"usage: anyreplica {command}")
    assert ask("walk").returncode == 2
    tool = "from fastmcp.tools import tool\n\n\n@tool\ndef add(a: int, b: int) -> int:\n    return a + b\n"
    app = "@anyreplica.app_factory\ndef create_app():\n    return anyreplica.create_app(FastMCP('shop'))\n"
    (tmp_path / "shop.py").write_text(f"import anyreplica\nfrom fastmcp import FastMCP\n{tool}\n\n{app}")
    environment["MCP_COMPONENTS"] = "shop"
    checked = ask("check", "shop:create_app")
    assert checked.returncode == 0, checked.stderr


_PLAIN = """
from fastmcp import FastMCP

mcp = FastMCP("plain")


@mcp.tool
def add(a: int, b: int) -> int:
    return a + b
"""


def test_the_wheel_without_extras(installed: Path, tmp_path: Path) -> None:
    """A server that needs no extra is checked and answers a call without the packages of the extras."""
    python = tmp_path / "venv" / "bin" / "python"
    (wheel,) = installed.parent.parent.glob("*.whl")
    uv = [str(Path(sys.executable).with_name("uv")), "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, str(tmp_path / "venv")], check=True, timeout=60)
    plain = [*uv, "pip", "install", "--python", str(python), "-c", str(_versions(tmp_path)), str(wheel)]
    subprocess.run(plain, check=True, timeout=400)
    absent = "import importlib.util as u; print([u.find_spec(name) for name in ('docket', 'fakeredis', 'http_sf')])"
    assert _output(python, "-c", absent) == "[None, None, None]\n"
    (tmp_path / "plain.py").write_text(_PLAIN)
    assert "settings and components are valid" in _output(python, "-m", "anyreplica", "check", "plain.py")
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": "", "MCP_PORT": str(port), "DRAIN_SECONDS": "0"}
    process = subprocess.Popen([str(python), "-m", "anyreplica", "run", "plain.py"], cwd=tmp_path, env=environment)
    try:
        until(lambda: alive(port, path="/readyz"), "the server is ready")
        answer = call(f"http://127.0.0.1:{port}", "add", {"a": 2, "b": 3})
    finally:
        process.terminate()
        process.wait(60)
    assert answer["structuredContent"] == {"result": 5}


def test_an_installer_refuses_a_conflict(installed: Path, tmp_path: Path) -> None:
    """In one command with a version of FastMCP that anyreplica does not serve, the installer names both."""
    (wheel,) = installed.parent.parent.glob("*.whl")
    uv = str(Path(sys.executable).with_name("uv"))
    to = ("--dry-run", "--python", str(installed / "python"))
    done = run(uv, "pip", "install", *to, "fastmcp==3.4.11", str(wheel))
    assert done.returncode != 0
    assert "anyreplica" in done.stderr
    assert "fastmcp" in done.stderr


def _versions(folder: Path) -> Path:
    """Write the versions of the lock, without hashes, as constraints."""
    lines = re.findall(r"^([\w.-]+)(?:\[.*?\])?(==\S+)", (ROOT / "locks" / "server.lock").read_text(), re.MULTILINE)
    (folder / "versions.txt").write_text("\n".join(map("".join, lines)))
    return folder / "versions.txt"


def _output(python: Path, *arguments: str) -> str:
    options: Any = {"cwd": python.parents[2], "env": {**os.environ, "PYTHONPATH": ""}}
    done = subprocess.run([str(python), *arguments], stdout=subprocess.PIPE, text=True, check=True, **options)
    return str(done.stdout)


def test_both_distributions_have_the_license(installed: Path) -> None:
    """Wheel and source distribution have and name the license, and contain nothing only for maintainers."""
    folder = installed.parent.parent
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read("anyreplica-0.2.0.dist-info/METADATA").decode()
    assert "anyreplica-0.2.0.dist-info/licenses/LICENSE" in names
    assert "anyreplica/py.typed" in names  # the types are for type checkers, too (PEP 561)
    assert "License-Expression: MIT\nLicense-File: LICENSE\n" in metadata
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        assert "anyreplica-0.2.0/LICENSE" in archive.getnames()
        entries = {name.split("/")[1] for name in archive.getnames()}
    assert entries == {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "src"}

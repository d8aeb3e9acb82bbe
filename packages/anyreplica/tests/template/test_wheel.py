"""Tests of the package as a wheel, in a separate environment."""

import os
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from conftest import ROOT
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
    subprocess.run(
        [*pip, "--no-deps", "--require-hashes", "-r", str(ROOT / "requirements.lock")], check=True, timeout=400
    )
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True, timeout=60)
    subprocess.run([str(python), "-m", "pip", "check"], check=True, timeout=60)
    return folder / "venv" / "bin"


def test_the_command(installed: Path, tmp_path: Path) -> None:
    """Each command of the installed program has a help text, and `check` works for an app."""
    environment = {**os.environ, "COLUMNS": "100"}
    environment.pop("PYTHONPATH", None)

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(installed / "anyreplica"), *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    assert ask("--version").stdout == "0.2.0\n"
    overview = ask("--help")
    assert overview.returncode == 0
    for command in _COMMANDS:
        assert f"    {command} " in overview.stdout
        told = ask(command, "--help")
        assert told.returncode == 0, told.stderr
        assert told.stdout.startswith(f"usage: anyreplica {command}")
    assert ask("walk").returncode == 2
    (tmp_path / "shop.py").write_text(
        "import anyreplica\nfrom fastmcp import FastMCP\nfrom fastmcp.tools import tool\n\n\n@tool\n"
        "def add(a: int, b: int) -> int:\n    return a + b\n\n\n@anyreplica.app_factory\ndef create_app():\n"
        "    return anyreplica.create_app(FastMCP('shop'))\n"
    )
    environment["MCP_COMPONENTS"] = "shop"
    checked = ask("check", "shop:create_app")
    assert checked.returncode == 0, checked.stderr


def test_types_are_there(installed: Path) -> None:
    """The package contains its types for type checkers (PEP 561)."""
    look = "import anyreplica, pathlib; assert pathlib.Path(anyreplica.__file__).with_name('py.typed').is_file()"
    subprocess.run([str(installed / "python"), "-I", "-c", look], check=True, timeout=60)


def test_both_distributions_have_the_license(installed: Path) -> None:
    """The wheel and the source distribution have the license, and their metadata names it."""
    folder = installed.parent.parent
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read("anyreplica-0.2.0.dist-info/METADATA").decode()
    assert "anyreplica-0.2.0.dist-info/licenses/LICENSE" in names
    assert "License-Expression: MIT\nLicense-File: LICENSE\n" in metadata
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        assert "anyreplica-0.2.0/LICENSE" in archive.getnames()

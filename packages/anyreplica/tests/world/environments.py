"""Environments for servers and clients of the package indexes. They are kept between runs, in the user's cache.

A first run downloads the packages. Later runs need no network.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import PACKAGE

AS_OF = "2026-11-26"
"""The environments have no package that is newer than this day. So the result of a test changes only if the repository
changes. Move the day to try newer versions."""

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anyreplica" / "world"
_UV = Path(sys.executable).parent / "uv"
_KEEP_SECONDS = 14 * 24 * 3600
"""Time after which an environment that nobody uses any more is deleted, in seconds."""
_SECONDS = 900
"""Maximum time of an installation, in seconds. A wheel of some frameworks has hundreds of megabytes."""


class ConflictError(Exception):
    """No versions fit all requirements. The text is the resolver's explanation, on one line."""


def with_anyreplica(*requirements: str) -> Path:
    """Return the Python of an environment with these requirements and anyreplica, which one resolver run chose.

    Raises:
        ConflictError: the requirements exclude what anyreplica needs.
    """
    pyproject = (PACKAGE / "pyproject.toml").read_text()
    with _made(requirements, re.split(r"^\[tool", pyproject, maxsplit=1, flags=re.MULTILINE)[0]) as folder:
        python, source = folder / "bin" / "python", folder / "anyreplica"
        if not source.exists():
            _venv(folder, *requirements, "-e", str(PACKAGE))
        elif source.read_text() != str(PACKAGE):  # another clone of the repository made the environment
            _uv("pip", "install", "--python", str(python), "--no-deps", "-e", str(PACKAGE))
        source.write_text(str(PACKAGE))
        return python


def python_with(*requirements: str) -> Path:
    """Return the Python of an environment with these requirements."""
    with _made(requirements) as folder:
        if not (folder / "complete").exists():
            _venv(folder, *requirements)
            (folder / "complete").touch()
        return folder / "bin" / "python"


def node_with(source: Path) -> Path:
    """Return a folder with what the `package-lock.json` in `source` names, and with copies of the scripts there."""
    with _made(["node"], (source / "package-lock.json").read_text()) as folder:
        for file in (*source.glob("*.json"), *source.glob("*.mjs")):
            shutil.copy(file, folder)
        if not (folder / "complete").exists():
            npm = ["npm", "ci", "--prefix", str(folder), "--no-audit", "--no-fund"]
            done = subprocess.run(npm, capture_output=True, text=True, check=False, timeout=_SECONDS)
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "complete").touch()
        return folder


@contextmanager
def _made(requirements: Sequence[str], *more: str) -> Iterator[Path]:
    """Lock the folder of an environment. Delete older ones of the same package that nobody uses any more."""
    name = re.sub(r"[^\w-]", "-", re.split(r"[=<>\[]", requirements[0])[0])
    key = json.dumps([AS_OF, sys.version_info[:2], *requirements, *more])
    folder = _CACHE / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{folder.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(folder)
        for other in _CACHE.glob(f"{name}-{'[0-9a-f]' * 12}"):
            if time.time() - other.stat().st_mtime > _KEEP_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
        yield folder


def _venv(folder: Path, *requirements: str) -> None:
    _uv("venv", "--clear", "--python", sys.executable, str(folder))
    python = ["--python", str(folder / "bin" / "python")]
    _uv("pip", "install", *python, "--exclude-newer", AS_OF, *requirements)


def _uv(*arguments: str) -> None:
    done = subprocess.run([_UV, *arguments], capture_output=True, text=True, check=False, timeout=_SECONDS)
    if done.returncode == 0:
        return
    message = " ".join(re.sub(r"[×╰─▶│]", " ", done.stderr).split())
    if "No solution found" in message:
        raise ConflictError(message)
    pytest.fail(f"uv {' '.join(arguments)}: {message}")

"""Get the tests of a package: its source distribution of the version that the locks have, from the package registry."""

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
LOCK = FOLDER / "requirements.lock"
"""Packages that the tests import, in addition to the packages of the development environment."""
SERVER_LOCK = FOLDER.parents[2] / "locks" / "server.lock"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anyreplica" / "upstream"


def source_of(package: str) -> Path:
    """Return the folder with the unpacked source distribution of a package. Download it if it is not there.

    Raises:
        RuntimeError: the installed version is not the version of the lock.
        subprocess.CalledProcessError: pip failed; it has printed why.
    """
    name = f"{package}-{version(package)}"
    folder = CACHE / name
    if folder.is_dir():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    requirement = CACHE / f"{name}.txt"
    requirement.write_text(_locked(package))
    # pip asks the package for its metadata, and installs what builds it into a temporary environment.
    _pip("download", "--no-deps", "--no-binary", package, "--require-hashes", "-r", requirement, "-d", CACHE)
    with tarfile.open(CACHE / f"{name}.tar.gz") as archive:
        archive.extractall(CACHE, filter="data")
    return folder


def extra_packages() -> Path:
    """Return a folder with the packages of `LOCK`. Install them if they are not there."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder, mark = CACHE / f"packages-{python}", CACHE / f"packages-{python}" / "requirements.lock"
    if not mark.exists() or mark.read_text() != LOCK.read_text():
        _pip("install", "--no-deps", "--require-hashes", "-r", LOCK, "--upgrade", "--target", folder)
        mark.write_text(LOCK.read_text())
    return folder


def _locked(package: str) -> str:
    """Return the lines of a package in the lock, which have its version and its hashes."""
    found = re.search(rf"^{package}==\S+( \\\n    --hash=\S+)+\n", SERVER_LOCK.read_text(), re.MULTILINE)
    if found is None or not found[0].startswith(f"{package}=={version(package)} "):
        raise RuntimeError(f"{package} {version(package)} is installed; {SERVER_LOCK.name} has another version")
    return found[0]


def _pip(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)

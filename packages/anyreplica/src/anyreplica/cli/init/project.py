"""What `anyreplica init` finds in the folder of a server: its file, its packages and its name."""

import re
import sys
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyreplica.settings.errors import StartupError
from anyreplica.settings.extras import MODULES

_SERVERS = ("fastmcp.json", "server.py", "main.py", "app.py")
"""The files that may have the server, in the order in which they are looked for."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")

_REFERS = re.compile(r"^\s*(-r|-c|-e|--requirement|--constraint|--editable|\.|file:)", re.MULTILINE)
"""A line of requirements.txt that refers to another file of the project."""

_ONLY_LOCAL = ("local",)
"""Extras that an image does not need: replicas in a Swarm do not start a Redis themselves."""


@dataclass(frozen=True)
class Project:
    """The folder of a server.

    Attributes:
        server: The server, in a form that `anyreplica run` takes.
        packages: The file that names the packages of the server: `requirements.txt`, `uv.lock` or `pyproject.toml`.
        is_package: Whether the server is a package itself, which pip can install.
        needs_files: Whether the installation of the packages needs more files of the project.
        has_hashes: Whether `requirements.txt` has the hash of each package. pip then installs nothing without a hash.
        needs_git: Whether a package comes from a Git repository.
        extras: The extras of anyreplica that are installed here and that an image may need.
    """

    server: str
    packages: str
    is_package: bool
    needs_files: bool
    has_hashes: bool
    needs_git: bool
    extras: tuple[str, ...]


def name_of(folder: Path) -> str:
    """Return a name for the image and the stack of a server, from the name of its folder."""
    return _NOT_IN_NAMES.sub("-", folder.resolve().name.lower()).strip("-")[:63].strip("-") or "mcp-server"


def find_project(folder: Path, server: str | None) -> Project:
    """Return what a folder has.

    Args:
        server: The server that the user has named; None: the first of the usual files.

    Raises:
        StartupError: No file has the server, or no file names its packages.
    """
    chosen = server or next((name for name in _SERVERS if (folder / name).is_file()), None)
    if chosen is None:
        raise StartupError(
            f"{folder}: no server found ({', '.join(_SERVERS)}); name it, for example: anyreplica init shop.py:mcp"
        )
    place = chosen.partition(":")[0]
    if place.endswith((".py", ".json")) and not (folder / place).is_file():
        raise StartupError(f"{chosen}: {folder / place} does not exist; run the command in the folder of the server")
    requirements, table = _text(folder / "requirements.txt"), _pyproject(folder)
    if requirements is None and table is None:
        raise StartupError(
            f"{folder}: there is no requirements.txt and no pyproject.toml; write the packages of your server into "
            "requirements.txt, one in each line, for example fastmcp"
        )
    packages = "requirements.txt"
    if requirements is None:
        packages = "uv.lock" if (folder / "uv.lock").is_file() else "pyproject.toml"
    is_package = requirements is None and table is not None and "build-system" in table
    text = requirements if requirements is not None else str(table)
    return Project(
        server=chosen,
        packages=packages,
        is_package=is_package,
        needs_files=is_package or _REFERS.search(text) is not None,
        has_hashes=requirements is not None and "--hash" in requirements,
        needs_git="git+" in text or "'git':" in text,
        extras=_installed_extras(),
    )


def python_image() -> str:
    """Return the base image of the Python version that runs now."""
    return f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"


def _installed_extras() -> tuple[str, ...]:
    modules = {**MODULES, "traces": "opentelemetry.sdk"}
    return tuple(name for name in sorted(modules) if name not in _ONLY_LOCAL and _is_installed(modules[name]))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def _text(file: Path) -> str | None:
    return file.read_text() if file.is_file() else None


def _pyproject(folder: Path) -> dict[str, Any] | None:
    """Return the content of `pyproject.toml`, or None if there is none or if it names no packages.

    Raises:
        StartupError: The file is no TOML.
    """
    text = _text(folder / "pyproject.toml")
    if text is None:
        return None
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise StartupError(f"{folder / 'pyproject.toml'}: {error}") from None
    return table if "project" in table or "build-system" in table else None

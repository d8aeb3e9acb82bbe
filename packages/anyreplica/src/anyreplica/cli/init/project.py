"""What `anyreplica init` finds in the folder of a server: its file, its packages and its name."""

import re
import sys
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyreplica.settings.errors import EXTRA_MODULES, StartupError

_SERVERS = ("fastmcp.json", "server.py", "main.py", "app.py")
"""The files that may have the server, in the order in which they are looked for."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")

_REFERS = re.compile(r"^\s*(-r|-c|-e|--requirement|--constraint|--editable|\.|[\w.-]+/)|\bfile:|\.whl\b", re.MULTILINE)
"""A line of requirements.txt that refers to another file of the project."""

_BY_URL = re.compile(r"anyreplica\s*(\[[^]]*\])?\s*@", re.IGNORECASE)
"""A dependency on anyreplica with a URL."""

LONGEST_STACK_NAME = 40
"""Maximum length of a name. The Swarm appends the names of services and networks to it, and has a limit of 63."""

_ONLY_LOCAL = ("local",)
"""Extras that an image does not need: replicas in a Swarm do not start a Redis themselves."""


@dataclass(frozen=True)
class Project:
    """The folder of a server.

    Attributes:
        server: The server, in a form that `anyreplica run` takes.
        packages: The file that names the packages of the server: `requirements.txt`, `uv.lock` or `pyproject.toml`.
        is_package: Whether pip can install the server itself as a package.
        needs_files: Whether pip needs other files of the project to install the packages.
        has_hashes: Whether `requirements.txt` has the hash of each package. pip then installs nothing without a hash.
        needs_git: Whether a package comes from a Git repository.
        has_version_of_git: Whether the version of the server's package may come from Git, which an image does not have.
        extras: The extras of anyreplica that are installed here and that an image may need.
    """

    server: str
    packages: str
    is_package: bool
    needs_files: bool
    has_hashes: bool
    needs_git: bool
    has_version_of_git: bool
    extras: tuple[str, ...]


def name_of(folder: Path) -> str:
    """Return a name for the image and the stack of a server, from the name of its folder."""
    return (
        _NOT_IN_NAMES.sub("-", folder.resolve().name.lower()).strip("-")[:LONGEST_STACK_NAME].strip("-") or "mcp-server"
    )


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
    requirements, table = _text(folder / "requirements.txt"), _pyproject(folder)
    if requirements is None and not table:
        raise StartupError(
            f"{folder}: no requirements.txt, and no pyproject.toml with packages; write the packages of your server "
            "into requirements.txt, one in each line, for example fastmcp"
        )
    packages = "requirements.txt"
    if requirements is None:
        packages = "uv.lock" if (folder / "uv.lock").is_file() else "pyproject.toml"
    is_package = "build-system" in table
    if is_package and any(map(_BY_URL.match, table.get("project", {}).get("dependencies", ()))):
        raise StartupError(
            f"{folder / 'pyproject.toml'}: the image gets anyreplica from a wheel, and pip refuses a second source; "
            "remove the URL of anyreplica in dependencies"
        )
    sources = table.get("tool", {}).get("uv", {}).get("sources", {})
    text = f"{table.get('project', {})}" if requirements is None else requirements
    return Project(
        server=_within(folder, chosen),
        packages=packages,
        is_package=is_package,
        needs_files=is_package or bool(sources) or _REFERS.search(text) is not None,
        has_hashes=requirements is not None and "--hash" in requirements,
        needs_git="git+" in text or "'git':" in str(sources),
        has_version_of_git="version" in table.get("project", {}).get("dynamic", ()),
        extras=_installed_extras(),
    )


def _within(folder: Path, server: str) -> str:
    """Return a server with the path of its file relative to the folder, as it is in the image."""
    place, colon, name = server.partition(":")
    if not place.endswith((".py", ".json")) or "://" in server:
        return server
    file = (folder / place).resolve()
    if not file.is_file():
        raise StartupError(f"{server}: {file} does not exist; run the command in the folder of the server")
    if not file.is_relative_to(folder.resolve()):
        raise StartupError(f"{server}: the file is outside of {folder}; run the command in its folder")
    return f"{file.relative_to(folder.resolve()).as_posix()}{colon}{name}"


def python_image() -> str:
    """Return the base image of the Python version that runs now."""
    return f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"


def _installed_extras() -> tuple[str, ...]:
    modules = {**EXTRA_MODULES, "traces": "opentelemetry.sdk"}
    return tuple(name for name in sorted(modules) if name not in _ONLY_LOCAL and _is_installed(modules[name]))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def _text(file: Path) -> str | None:
    """Return the content of a file, or None if there is none.

    Raises:
        StartupError: The file is not UTF-8.
    """
    try:
        return file.read_text() if file.is_file() else None
    except UnicodeDecodeError:
        raise StartupError(f"{file}: this file is not UTF-8; save it as UTF-8") from None


def _pyproject(folder: Path) -> dict[str, Any]:
    """Return the content of `pyproject.toml`. It is empty if there is no such file, or if it names no packages.

    Raises:
        StartupError: The file is no TOML.
    """
    text = _text(folder / "pyproject.toml")
    try:
        table = tomllib.loads(text or "")
    except tomllib.TOMLDecodeError as error:
        raise StartupError(f"{folder / 'pyproject.toml'}: {error}") from None
    return table if "project" in table or "build-system" in table else {}

"""Refuse versions of FastMCP and the MCP SDK that this version of anyreplica does not serve."""

from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from anyreplica._version import __version__
from anyreplica.settings.errors import StartupError

_CHECKED = ("fastmcp", "mcp")
"""The packages of which anyreplica uses private names. With another version, any call could fail for a missing name."""


def check_versions() -> None:
    """Compare the installed versions with the requirements of anyreplica.

    An installer refuses a conflict, but a later installation of another version can still bring one about.

    Raises:
        StartupError: a version is outside of the range, or a package is missing.
    """
    for requirement in map(Requirement, _requirements()):
        if requirement.name not in _CHECKED:
            continue
        needed = f"anyreplica {__version__} needs {requirement.name}{requirement.specifier}"
        try:
            installed = version(requirement.name)
        except PackageNotFoundError:
            raise StartupError(f"{requirement.name}: not installed; {needed}") from None
        if not requirement.specifier.contains(installed, prereleases=True):
            raise StartupError(
                f"{requirement.name} {installed}: {needed}; install your server's packages and anyreplica in one "
                "command, so that the installer finds versions that fit both"
            )


def _requirements() -> list[str]:
    try:
        return requires("anyreplica") or []
    except PackageNotFoundError:  # the source is on the path, and nothing is installed
        return []

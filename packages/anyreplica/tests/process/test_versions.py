"""Tests of the installed versions of FastMCP and the MCP SDK, which a start checks first."""

from importlib.metadata import PackageNotFoundError, version

import pytest

import anyreplica
from anyreplica.process import start as process_start
from anyreplica.settings.errors import StartupError
from tests.starts import start


def install(monkeypatch: pytest.MonkeyPatch, package: str, installed: str) -> None:
    """Pretend that a package has another version. An empty version: pretend that it is not installed."""

    def found(name: str) -> str:
        if name == package and not installed:
            raise PackageNotFoundError(name)
        return installed if name == package else version(name)

    monkeypatch.setattr(process_start, "version", found)


@pytest.mark.parametrize(
    ("package", "installed", "told"),
    [
        ("fastmcp", "3.4.11", "fastmcp 3.4.11: anyreplica 0.2.0 needs fastmcp"),
        ("fastmcp", "5.0.0", "fastmcp 5.0.0: anyreplica 0.2.0 needs fastmcp"),
        ("fastmcp", "", "fastmcp: not installed; anyreplica 0.2.0 needs fastmcp"),
        ("mcp", "1.30.0", "mcp 1.30.0: anyreplica 0.2.0 needs mcp"),
    ],
)
def test_a_version_outside_of_the_range_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, package: str, installed: str, told: str
) -> None:
    """The line names the installed version and the range. The import of the app is refused, too."""
    install(monkeypatch, package, installed)
    done = start("check")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert done.stderr.startswith(told)
    monkeypatch.delitem(vars(anyreplica), "create_app", raising=False)
    with pytest.raises(StartupError, match=told):
        _ = anyreplica.create_app


@pytest.mark.parametrize("installed", ["4.99.0", "4.99.0b1"])
def test_a_version_in_the_range_is_served(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    """Preliminary versions count, too: whoever installs one asks for it."""
    install(monkeypatch, "fastmcp", installed)
    process_start.check_versions()


def test_nothing_is_checked_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source on the path of a program, without an installation, has no requirements."""

    def missing(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(process_start, "requires", missing)
    install(monkeypatch, "fastmcp", "3.4.11")
    process_start.check_versions()

"""The three tiers of the tests, by what a test starts.

- *In process*: a test starts no process except `git`. It has no marker.
- *Servers*: a test starts replicas, a Redis, a browser or other programs on this machine. It has the marker `servers`,
  or a fixture that returns a server. A few of these tests also have the marker `smoke`: `make test` runs them.
- *System*: a test builds something (an image, an environment, a site), needs several machines, repeats in many variants
  what another test shows, or measures. It has the marker `system` or `alone`, or it is in a folder of `SYSTEM`. Those
  in the folder `world` install what others wrote, and also have the marker `world`.

A test in process that starts a process fails.

With `--dist loadfile`, pytest-xdist runs all tests of a file in one worker. It also runs all files that use the same
fleet in one worker, so each fleet starts once. The slowest files start first.

`--share 10` runs every tenth test in process and every tenth file of tests with servers, and `--without-share 10` the
others. `--slow-share 4` runs every fourth test with the marker `slow`. The commit decides which these are.
"""

import functools
import os
import re
import subprocess
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

SYSTEM = {"conformance", "helm", "kubernetes", "swarm", "world"}
"""Folders whose tests are in the tier *system*."""
_SERVERS = re.compile(r"\b(\w*Server|\w*Fleet|Queue|Collector|StartRedis|Prometheus)\b")
"""Types of fixtures that start servers."""
_SHARED = re.compile(r"\b(brought|login_fleet|full_fleet|asking_fleet|fleet_with_redis|tried): ")
"""Session fixtures that start slowly and that several files use."""
_LONGEST = (
    "deploy/test_deploy.py",
    "sessions/test_ask.py",
    "sessions/test_slow_redis.py",
    "process/test_local_redis.py",
    "template/test_scripts.py",
    "mcp/paths/test_tools.py",
    "mcp/paths/test_oddities.py",
    "autoscale/test_isolation.py",
    "sessions/test_official_clients.py",
    "docs/test_shell.py",
    "deploy/test_edge.py",
    "jobs/test_faults.py",
    "test_guard.py",
)
"""The slowest files. They start first: otherwise one worker would still run one of them when the others are done."""
_ALLOWED = {"git"}
_TESTS = Path(__file__).parent

_MARKERS = (
    "servers: the test starts servers or other programs on this machine; `make test` does not run it",
    "smoke: a test with servers that `make test` runs, too",
    "system: the test builds something, needs several machines, or takes long; only `.ci/full` runs it",
    "world: the test installs packages that others wrote; only `make test-world` runs it",
    "slow: the test takes long or is one of many variants; `make test` skips these tests, `.ci/run` runs a part",
    "alone: the test measures time or needs the whole machine; no other test runs at the same time",
    "long: the test takes minutes in a Swarm; CI does not run it",
)


class _Current:
    in_process = ""
    """The running test, if it must not start a process."""


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and check what tests start."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    start: Any = subprocess.Popen.__init__

    def checked(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        _check(args)
        start(self, args, *rest, **options)

    subprocess.Popen.__init__ = checked  # type: ignore[method-assign]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose a share of the tests."""
    parser.addoption("--share", type=int, default=1, metavar="N", help="run every N-th test or file only")
    parser.addoption("--without-share", type=int, default=0, metavar="N", help="run what `--share N` does not run")
    parser.addoption("--slow-share", type=int, default=1, metavar="N", help="run every N-th slow test only")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their folders and fixtures, and choose a share of the files."""
    for item in items:
        file = str(item.path.relative_to(_TESTS)) if _TESTS in item.path.parents else str(item.path)
        if file.startswith("world/"):
            item.add_marker(pytest.mark.world)
        if file.split("/")[0] in SYSTEM or item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.system)
        elif _has_server(item):
            item.add_marker(pytest.mark.servers)
    every, every_slow = _in_share(config.getoption("--share")), _in_share(config.getoption("--slow-share"))
    elsewhere = _in_share(config.getoption("--without-share"))
    kept = [
        item
        for item in items
        if (every_slow(item.nodeid) if item.get_closest_marker("slow") else not elsewhere(_shared_name(item)))
        and every(_shared_name(item))
    ]
    config.hook.pytest_deselected(items=list(set(items).difference(kept)))
    items[:] = kept
    longest = {_TESTS / file for file in _LONGEST}
    items.sort(key=lambda item: item.path not in longest)
    config.option.loadscopereorder = False  # pytest-xdist would start the files with most tests first


def _shared_name(item: pytest.Item) -> str:
    """Return the name by which a test belongs to a share. Tests with servers of one file stay together."""
    return item.path.name if item.get_closest_marker("servers") else item.nodeid


def _in_share(share: int) -> Callable[[str], bool]:
    """Return a function that returns whether a name is one of every `share` names. 0: no name is."""
    if not share:
        return lambda _: False
    chosen = _commit() % share if share > 1 else 0
    return lambda name: zlib.crc32(name.encode(errors="backslashreplace")) % share == chosen


def _has_server(item: pytest.Item) -> bool:
    """Return whether a fixture of the test, or a fixture that one of them uses, returns a server."""
    definitions: dict[str, Any] = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009  # pytest's own classes
    returned = (found[-1].func.__annotations__.get("return") for found in definitions.values())
    return any(_SERVERS.search(str(each)) for each in returned)


class _Files(LoadScopeScheduling):  # type: ignore[misc]
    """A schedule of pytest-xdist: the tests of a file, and files with the same fixture of `_SHARED`, share a worker."""

    def _split_scope(self, nodeid: str) -> str:
        return _group_of(nodeid.partition("::")[0])


@functools.cache
def _group_of(file: str) -> str:
    path = _TESTS.parent / file
    shared = _SHARED.search(path.read_text()) if path.is_file() else None
    return shared[1] if shared else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Replace the schedule of `--dist loadfile`."""
    return _Files(config, log) if config.getoption("dist") == "loadfile" else None


def _commit() -> int:
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=_TESTS).stdout
    return int(head or "0", 16)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note whether the test may start processes."""
    starts = item.get_closest_marker("servers") or item.get_closest_marker("system")
    _Current.in_process = "" if starts else item.nodeid
    try:
        return (yield)
    finally:
        _Current.in_process = ""


def _check(command: Any) -> None:
    program = command if isinstance(command, str | bytes | os.PathLike) else command[0]
    name = Path(os.fsdecode(program)).name
    if _Current.in_process and name not in _ALLOWED:
        pytest.fail(f"{_Current.in_process} is a test in process, but it starts {name}: give it the marker `servers`.")

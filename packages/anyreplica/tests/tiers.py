"""The three tiers of the tests, by what a test starts.

- *In process*: a test starts no process except `git`. It has no marker.
- *Servers*: a test starts replicas, a Redis, a browser or other programs on this machine. It has the marker `servers`,
  or it uses a fixture of `STARTING`. A few of these tests also have the marker `smoke`: `make test` runs them.
- *System*: a test builds something (an image, an environment, a site), needs several machines, repeats in many variants
  what another test shows, or runs whole programs of `benchmarks/`. It has the marker `system`, or it is in a folder of
  `SYSTEM`.

A test in process that starts a process fails.
"""

import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

SYSTEM = {"attacks", "benchmarks", "conformance", "fuzz", "helm", "swarm"}
"""Folders whose tests are in the tier *system*."""
STARTING = {
    "fleet",
    "fleet_with_redis",
    "hostile",
    "local_replicas",
    "local_url",
    "redis_server",
    "start_server",
}
"""Fixtures that start servers."""
_ALLOWED = {"git"}
_TESTS = Path(__file__).parent

_MARKERS = (
    "servers: the test starts servers or other programs on this machine; `make test` does not run it",
    "smoke: a test with servers that `make test` runs, too",
    "system: the test builds something, needs several machines, or takes long; only `.ci/full` runs it",
    "slow: a test in process that `make test` does not run, because it takes long or is one of many variants",
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folders and fixtures."""
    for item in items:
        if _TESTS in item.path.parents and item.path.relative_to(_TESTS).parts[0] in SYSTEM:
            item.add_marker(pytest.mark.system)
        elif STARTING.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.servers)


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

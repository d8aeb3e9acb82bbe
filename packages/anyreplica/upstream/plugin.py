"""A pytest plugin that serves the FastMCP and SDK servers of other people's tests over HTTP.

It changes two things: a client that a test connects to a server object in memory connects over HTTP instead, and
`http_app()` returns an app that anyreplica serves. With `--served-by control`, the HTTP app of the server's own
library serves the clients.
"""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from upstream import fastmcp_servers, sdk_servers, serving


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("upstream")
    group.addoption("--served-by", choices=("anyreplica", "control"), default="anyreplica")
    group.addoption("--sessions", action="store_true", help="clients use the handshake protocol, and have sessions")
    group.addoption("--results", metavar="FILE", help="write one line of JSON for each test")
    group.addoption("--only", metavar="FILE", help="run only the tests that a line of this file names")


def pytest_configure(config: pytest.Config) -> None:
    """Replace what connects tests to their servers."""
    sessions = config.getoption("--sessions")
    if config.getoption("--results") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Results(Path(config.getoption("--results"))))
    ours = config.getoption("--served-by") == "anyreplica"
    if ours:
        # A replica hides the DEBUG lines of this logger, see process/logs.py. For the other loggers, `serving` keeps
        # what the test has set.
        logging.getLogger("fastmcp.server.mixins.mcp_operations").setLevel(logging.INFO)
    fastmcp_servers.serve(ours=ours, sessions=sessions)
    sdk_servers.serve(ours=ours)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep only the tests that `--only` names."""
    if file := config.getoption("--only"):
        only = set(Path(file).read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in only])
        items[:] = [item for item in items if item.nodeid in only]


def pytest_runtest_setup() -> None:
    """Note that this test has used no server yet, and keep the lines of its HTTP server out of the log."""
    serving.used[0] = False
    # Tests count the records of the log. A test that configures uvicorn's own log enables this logger again.
    logging.getLogger("uvicorn.error").disabled = True


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Report whether the test has used a server."""
    if serving.used[0]:
        item.user_properties.append(("served", True))


class _Results:
    """Writes the results of all workers of pytest-xdist into a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._results: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        result = self._results.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0})
        result["seconds"] += report.duration
        if report.outcome != "passed":
            result["outcome"] = report.outcome
            result["text"] = report.longreprtext[-2000:]
        result["served"] = any(name == "served" for name, _ in report.user_properties)

    def pytest_sessionfinish(self) -> None:
        lines = [json.dumps({"test": test, **result}) for test, result in self._results.items()]
        self._file.write_text("".join(f"{line}\n" for line in lines))

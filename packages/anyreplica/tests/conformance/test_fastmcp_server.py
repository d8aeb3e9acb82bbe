"""Run every scenario of the official conformance suite against three replicas of a plain FastMCP server.

The server is in the folder `server`. Its author has not heard of anyreplica. Each request goes to the next replica.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.test_conformance import HERE, suite
from tests.fastmcp_server.conftest import replicas
from tests.replicas import Fleet

pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis"), pytest.mark.alone]

SKIPPED = {
    "tasks-status-notifications",  # the suite does not run this scenario yet
    "sep-2640-capability-directory-read-flag",  # FastMCP does not offer resources/directory/read
    "sep-2640-directory-read-method-registered",
    "sep-2640-directory-read-result-resources-shape",
    "sep-2640-directory-read-subdir-mimetype",
    "sep-2640-directory-read-invalid-params",
    "sep-2640-directory-read-pagination",
}
WARNED = {"sep-2640-skillmd-metadata-name", "sep-2640-skillmd-metadata-description", "sep-2640-meta-prefix"}
"""Recommendations for skills that FastMCP does not follow."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas with full sessions that share a Redis."""
    folder = tmp_path_factory.mktemp("fleet")
    with replicas(folder, str(HERE / "server" / "server.py:mcp"), DEREFERENCE_SCHEMAS="false") as found:
        yield found


@pytest.mark.parametrize(
    ("arguments", "scenarios", "passed"),
    [
        (["--requirements", "2026-07-28"], 50, 196),
        (["--requirements", "2025-11-25"], 33, 80),
        (["--suite", "pending"], 17, 112),
    ],
    ids=["2026-07-28", "2025-11-25", "pending and extensions"],
)
def test_every_scenario_passes(fleet: Fleet, tmp_path: Path, arguments: list[str], scenarios: int, passed: int) -> None:
    """Every scenario passes, also those that are not scored."""
    done = suite(fleet, tmp_path, *arguments)
    reports = {report.parent.name: json.loads(report.read_text()) for report in tmp_path.glob("server-*/checks.json")}
    checks = [check for report in reports.values() for check in report]
    count = Counter(check["status"] for check in checks)
    print(f"{' '.join(arguments)}: {len(reports)} scenarios, {dict(count)}")
    failed = [f"{check['id']}: {check.get('errorMessage')}" for check in checks if check["status"] == "FAILURE"]
    assert not failed, "\n".join(failed)
    assert {check["id"] for check in checks if check["status"] == "WARNING"} <= WARNED
    assert {check["id"] for check in checks if check["status"] == "SKIPPED"} <= SKIPPED
    assert (len(reports), count["SUCCESS"]) >= (scenarios, passed), done.stdout[-2000:]

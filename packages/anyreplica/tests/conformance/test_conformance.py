"""Run the official conformance suite against three replicas. Each request goes to the next replica.

The components that the suite expects are in the package `tests.conformance.pack`.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.replicas import Fleet, RedisServer, running

HERE = Path(__file__).parent
NODE = HERE / "node_modules" / "node" / "bin" / "node"
SUITE = HERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

# The suite allows 0.6 or 1 s for a reply. This is not always enough while other tests run.
pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis"), pytest.mark.alone]


@pytest.fixture(scope="module", params=["off", "ask", "full"])
def sessions(request: pytest.FixtureRequest) -> str:
    """The values of HANDSHAKE_SESSIONS."""
    return str(request.param)


@pytest.fixture(scope="module")
def fleet(sessions: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas that share a Redis and send tool schemas as written."""
    folder = tmp_path_factory.mktemp("fleet")
    with (
        RedisServer(folder / "redis.log") as redis,
        running(folder, REDIS_URL=redis.url, DEREFERENCE_SCHEMAS="false", HANDSHAKE_SESSIONS=sessions) as found,
    ):
        yield found


def suite(fleet: Fleet, folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the suite against the replicas. The suite writes a report of each scenario into a folder."""
    return subprocess.run(
        [NODE, "--import", HERE / "fresh.mjs", SUITE, "server", "--url", f"{fleet.url}/mcp", "-o", folder, *arguments],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.parametrize(("requirements", "scenarios"), [("2026-07-28", 40), ("2025-11-25", 30)])
def test_requirements(fleet: Fleet, sessions: str, tmp_path: Path, requirements: str, scenarios: int) -> None:
    """Every scored scenario passes, except the scenarios in the list of expected failures."""
    own = f"-{sessions}" if sessions != "off" and requirements == "2025-11-25" else ""
    failures = HERE / f"expected-failures-{requirements}{own}.yaml"
    done = suite(fleet, tmp_path, "--requirements", requirements, "--expected-failures", failures)
    checks = {report.parent.name: json.loads(report.read_text()) for report in tmp_path.glob("server-*/checks.json")}
    failed = "\n".join(
        f"{name}: {check['id']}: {check.get('errorMessage')}"
        for name, all_of_it in checks.items()
        for check in all_of_it
        if check["status"] == "FAILURE"
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-2000:]}\n{failed}"
    assert len(checks) >= scenarios, sorted(checks)
    assert sum(check["status"] == "SUCCESS" for all_of_it in checks.values() for check in all_of_it) > scenarios


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_schemas_reach_clients_as_they_are_written(fleet: Fleet, tmp_path: Path, version: str) -> None:
    """Clients receive tool schemas as written.

    Both versions' requirements run this scenario without a score. The scenario fails if references are replaced.
    """
    done = suite(fleet, tmp_path, "--scenario", "json-schema-2020-12", "--spec-version", version)
    assert done.returncode == 0, done.stdout
    assert "Passed: 8/8, 0 failed, 0 warnings" in done.stdout


def test_the_suite_reaches_every_replica(fleet: Fleet) -> None:
    """Every replica has answered requests of the suite."""
    served = Counter(replica.output.count("POST /mcp") > 0 for replica in fleet.replicas)
    assert served == {True: 3}

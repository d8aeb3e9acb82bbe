"""The official conformance suite, against three replicas of which each request gets the next.

The fixtures that it expects are the package `tests.conformance.pack`, discovered and served like any other.
"""

import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.replicas import Fleet

HERE = Path(__file__).parent
NODE = HERE / "node_modules" / "node" / "bin" / "node"
SUITE = HERE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

# The suite gives a reply 0.6 or 1 s, by its own clock: beside other tests that is not always enough.
pytestmark = [pytest.mark.needs("node"), pytest.mark.needs("redis"), pytest.mark.alone]


@pytest.mark.parametrize(("requirements", "scenarios"), [("2026-07-28", 40), ("2025-11-25", 30)])
def test_requirements(fleet_with_redis: Fleet, tmp_path: Path, requirements: str, scenarios: int) -> None:
    """Every scored scenario passes, but for those whose reason stands in the list."""
    done = subprocess.run(
        [
            NODE,
            "--import",
            HERE / "fresh.mjs",
            SUITE,
            "server",
            "--url",
            f"{fleet_with_redis.url}/mcp",
            "--requirements",
            requirements,
            "--expected-failures",
            HERE / f"expected-failures-{requirements}.yaml",
            "-o",
            tmp_path,
        ],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
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


def test_the_suite_reaches_every_replica(fleet_with_redis: Fleet) -> None:
    """Else it would show nothing about replicas."""
    served = Counter(replica.output.count("POST /mcp") > 0 for replica in fleet_with_redis.replicas)
    assert served == {True: 3}

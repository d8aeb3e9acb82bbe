"""More load than a replica can take: it keeps what it can do, and says no to the rest at once."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Server, StartServer, run

pytestmark = pytest.mark.alone

MOST = 20
SECONDS = 0.1
CAPACITY = MOST / SECONDS
"""Calls per second, by Little's law: calls that wait cost no CPU."""


def measured(server: Server, file: Path, *load: str) -> dict[str, Any]:
    """What the load test finds."""
    what = ["--tool", "take", "--args", json.dumps({"seconds": SECONDS}), "--expect-replicas", "1"]
    command = [sys.executable, "test_swarm_load.py", "--url", f"{server.url}/mcp", "--json", str(file)]
    done = run(*command, *what, *load)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    figures: dict[str, Any] = json.loads(file.read_text())
    return figures


@pytest.mark.parametrize("connections", ["keepalive", "fresh"])
def test_three_times_the_capacity(start_server: StartServer, tmp_path: Path, connections: str) -> None:
    """Nine tenths of what it can do and more gets done, in its usual time; the rest is refused; then all is well."""
    server = start_server(MAX_IN_FLIGHT=str(MOST), MCP_COMPONENTS="tests.sample,tests.packs.timed", LOG_LEVEL="WARNING")
    file = tmp_path / "run.json"
    how = ("--connections", connections)
    full = ("--concurrent", str(MOST), "--duration", "4s")
    peak = measured(server, file, *full, *how)
    assert 0.5 * CAPACITY < peak["throughput"] <= CAPACITY
    flood = measured(server, file, "--rate", f"{3 * CAPACITY:g}", "--concurrent", "300", "--duration", "6s", *how)
    assert {failure["kind"] for failure in flood["failures"]} == {"HTTP 503 unavailable"}
    assert "20 requests in flight (MAX_IN_FLIGHT)" in flood["failures"][0]["example"]
    assert flood["throughput"] > 0.9 * peak["throughput"]
    assert flood["latency"]["p99"] < 10 * peak["latency"]["p50"]
    assert flood["latency_failed"]["p50"] < peak["latency"]["p50"], "a refusal is quicker than a call"
    after = measured(server, file, "--concurrent", str(MOST // 2), "--duration", "2s", *how)
    assert after["failures"] == []

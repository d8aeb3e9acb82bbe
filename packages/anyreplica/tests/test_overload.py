"""Tests of a replica under more load than its capacity."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Server, StartServer, run

pytestmark = pytest.mark.alone

IN_FLIGHT = 20
SECONDS = 0.1
CAPACITY = IN_FLIGHT / SECONDS
"""Capacity in calls per second, by Little's law. Calls that wait use no CPU."""


def measured(server: Server, file: Path, *load: str) -> dict[str, Any]:
    """Run the load test and return its figures."""
    what = ["--tool", "take", "--args", json.dumps({"seconds": SECONDS}), "--expect-replicas", "1"]
    command = [sys.executable, "test_swarm_load.py", "--url", f"{server.url}/mcp", "--json", str(file)]
    done = run(*command, *what, *load)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    figures: dict[str, Any] = json.loads(file.read_text())
    return figures


@pytest.mark.parametrize("connections", ["keepalive", "fresh"])
def test_three_times_the_capacity(start_server: StartServer, tmp_path: Path, connections: str) -> None:
    """At three times its capacity, a replica serves over 90 % of its peak, fast, refuses the rest, and recovers."""
    settings = {"MCP_COMPONENTS": "server,tests.packs.timed", "LOG_LEVEL": "WARNING"}
    server = start_server(MAX_IN_FLIGHT=str(IN_FLIGHT), **settings)
    file = tmp_path / "run.json"
    how = ("--connections", connections)
    full = ("--concurrent", str(IN_FLIGHT), "--duration", "4s")
    peak = measured(server, file, *full, *how)
    assert 0.5 * CAPACITY < peak["throughput"] <= CAPACITY
    flood = measured(server, file, "--rate", f"{3 * CAPACITY:g}", "--concurrent", "300", "--duration", "6s", *how)
    assert {failure["kind"] for failure in flood["failures"]} == {"HTTP 503 unavailable"}
    assert "20 requests in flight (MAX_IN_FLIGHT)" in flood["failures"][0]["example"]
    assert flood["throughput"] > 0.9 * peak["throughput"]
    assert flood["latency"]["p99"] < 10 * peak["latency"]["p50"]
    assert flood["latency_failed"]["p50"] < peak["latency"]["p50"], "a refusal must be faster than a call"
    after = measured(server, file, "--concurrent", str(IN_FLIGHT // 2), "--duration", "2s", *how)
    assert after["failures"] == []

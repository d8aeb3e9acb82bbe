"""How far it is from the socket to a tool."""

import subprocess
import sys

import pytest

from conftest import ROOT, environment, free_port

_MOST = 20
"""Modules (DESIGN, rule 2)."""


@pytest.mark.parametrize("protocol", ["handshake", "stateless"])
def test_a_call_passes_few_modules(protocol: str) -> None:
    """A reader follows a call from the socket to the tool in one sitting."""
    command = [sys.executable, "-m", "tests.passed_modules", protocol]
    found = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(MCP_PORT=str(free_port())),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split()
    print(*found, sep="\n")
    assert {"mcp_swarm.http.uvicorn.protocol", "mcp_swarm.mcp.fast_path", "tests.sample.tools.echo"} <= set(found)
    assert len(found) <= _MOST

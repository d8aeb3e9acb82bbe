"""Test of the number of modules between the socket and a tool."""

import subprocess
import sys

import pytest

from conftest import ROOT, environment, free_port

pytestmark = pytest.mark.servers


_MAX_MODULES = 18 if sys.version_info >= (3, 12) else 19
"""Maximum number of modules of this project that one call uses.

Before Python 3.12, a task never runs at once, so each call waits for its tool, in one more module.
"""


@pytest.mark.parametrize("protocol", ["handshake", "stateless"])
def test_a_call_passes_few_modules(protocol: str) -> None:
    """A call uses so few modules that a reader can follow it from the socket to the tool in one sitting."""
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
    assert {"anyreplica.http.uvicorn.protocol", "anyreplica.mcp.fast_path", "server.tools.echo"} <= set(found)
    assert len(found) <= _MAX_MODULES

"""Test of the number of modules between the socket and a tool."""

import sys

import pytest

from conftest import free_port, run

pytestmark = pytest.mark.servers


_MAX_MODULES = 16 if sys.version_info >= (3, 12) else 17
"""Maximum number of our modules in a call. Before Python 3.12, each call waits for its tool, in one more module."""


@pytest.mark.parametrize("protocol", ["handshake", "stateless"])
def test_a_call_passes_few_modules(protocol: str) -> None:
    """A call uses so few modules that a reader can follow it from the socket to the tool in one sitting."""
    done = run(sys.executable, "-m", "tests.passed_modules", protocol, MCP_PORT=str(free_port()))
    found = done.stdout.split()
    print(*found, sep="\n")
    assert done.returncode == 0, done.stderr
    assert {"anyreplica.http.uvicorn.protocol", "anyreplica.mcp.fast_path", "server.tools.echo"} <= set(found)
    assert len(found) <= _MAX_MODULES

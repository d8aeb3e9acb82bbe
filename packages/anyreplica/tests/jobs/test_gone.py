"""Tests of clients that close their connection while their job runs."""

import socket
import struct
from pathlib import Path

import pytest

from conftest import StartServer, until
from tests.calls import BOTH, get
from tests.damage.wire import handshake, http, post

RESET = struct.pack("ii", 1, 0)
"""Socket option that ends a connection with RST instead of FIN."""


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
@pytest.mark.parametrize("more", [b"", http("GET", "/version")], ids=["alone", "with another request behind it"])
@pytest.mark.parametrize("way", ["tool", "submit_job", "POST /jobs"])
def test_a_client_that_disconnects_causes_no_error(
    start_server: StartServer, tmp_path: Path, way: str, more: bytes, reset: bool
) -> None:
    """A client that disconnects causes no error in the log of a replica that runs the job, which goes on."""
    mark = tmp_path / "mark"
    arguments = {"seconds": 0.5, "mark": str(mark)}
    submission = {"name": "submit_job", "arguments": {"job": "nap", "arguments": arguments}}
    asked = {
        "tool": handshake("tools/call", {"name": "nap", "arguments": arguments}, Accept=BOTH),
        "submit_job": handshake("tools/call", submission, Accept=BOTH),
        "POST /jobs": post({"job": "nap", "params": arguments}, path="/jobs"),
    }[way]
    server = start_server(MCP_COMPONENTS="tests.packs.working")
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(asked + more)
        if way == "tool":  # The call waits for the job's end.
            until(mark.exists, "the job runs")
        if reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    until(lambda: "POST /mcp" in server.output or "POST /jobs" in server.output, "the access log contains the request")
    if way == "tool":
        until(lambda: mark.read_text().split() == ["begun", "ended"], "the job runs to its end")
    assert get(f"{server.url}/jobs").status_code == 200
    server.stop()
    assert "Unhandled error" not in server.output
    assert "Traceback" not in server.output

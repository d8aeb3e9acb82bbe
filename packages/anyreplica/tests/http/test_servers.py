"""Tests of the app under three ASGI servers, each started by its own command line."""

import asyncio
import signal
from collections.abc import Iterator

import httpx
import pytest

from conftest import Server, StartServer, free_port, until
from tests.calls import HEADERS, request, text
from tests.replicas import asking

APP = "server.server:create_app"
CALL = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})


COMMANDS = {
    "uvicorn": f"-m uvicorn --factory {APP} --port PORT",
    "hypercorn": f"-m hypercorn {APP}() --bind 127.0.0.1:PORT",
    "granian": f"-m granian --factory {APP} --interface asgi --port PORT",
}
"""The arguments of Python that start an ASGI server with the app."""

PREFIXES = {"uvicorn": "--root-path", "hypercorn": "--root-path", "granian": "--url-path-prefix"}
"""The option with which an ASGI server learns the prefix that a proxy removes from the path."""


@pytest.fixture(scope="module", params=COMMANDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica under each ASGI server."""
    port = free_port()
    log = tmp_path_factory.mktemp(request.param) / "log"
    replica = Server(log, command=COMMANDS[request.param].replace("PORT", str(port)).split(), MCP_PORT=str(port))
    replica.wait_ready()
    yield replica
    replica.process.send_signal(signal.SIGTERM)
    until(lambda: replica.process.poll() is not None, f"{request.param} has ended; it printed:\n{replica.output}")
    until(lambda: "Stopped" in replica.output, "the log contains 'Stopped'")
    assert "Traceback" not in replica.output


@pytest.mark.parametrize("http2", [False, True])
def test_calls_in_both_protocols(server: Server, http2: bool) -> None:
    """Each ASGI server serves both protocols over HTTP/1.1; Hypercorn and Granian also over HTTP/2 without TLS."""
    if http2 and "uvicorn" in server.log.parent.name:
        return
    with httpx.Client(base_url=server.url, http1=not http2, http2=http2) as client:
        answer = client.post("/mcp", json=CALL, headers=HEADERS)
        assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert answer.json()["result"]["content"][0]["text"] == "hi"
        assert answer.headers["x-served-by"]
        modern = asking("stateless", "tools/call", CALL["params"])
        assert client.post("/mcp", **modern).json()["result"]["resultType"] == "complete"
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert client.post("/mcp", json=notification, headers=HEADERS).status_code == 202
        assert client.get("/mcp").status_code == 405
        assert client.post("/mcp", content=b"{", headers=HEADERS).status_code == 400
        assert client.get("/nowhere").status_code == 404


def test_large_bodies(server: Server) -> None:
    """Each ASGI server carries a large body in both directions and refuses a body beyond the limit."""
    with httpx.Client(base_url=server.url) as client:
        long = request("tools/call", {"name": "echo", "arguments": {"message": "ä" * 500_000}})
        assert client.post("/mcp", json=long, headers=HEADERS).json()["result"]["content"][0]["text"] == "ä" * 500_000
        assert client.post("/mcp", content=b"x" * 5_000_000, headers=HEADERS).status_code == 413


@pytest.mark.anyio
async def test_concurrent_calls(server: Server) -> None:
    """Each ASGI server answers a hundred concurrent calls."""
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

        async def call(number: int) -> str:
            params = {"name": "echo", "arguments": {"message": str(number)}}
            answer = await client.post("/mcp", json=request("tools/call", params), headers=HEADERS)
            return text(answer.json()["result"])

        assert await asyncio.gather(*map(call, range(100))) == [str(number) for number in range(100)]


@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefix_of_the_server(start_server: StartServer, name: str) -> None:
    """Behind a proxy that removes a prefix, each ASGI server can have the prefix. Links then contain it."""
    port = str(free_port())
    command = f"{COMMANDS[name].replace('PORT', port)} {PREFIXES[name]} /api".split()
    replica = start_server(command=command, MCP_PORT=port)
    replica.wait_ready()
    answer = httpx.post(f"{replica.url}/mcp", json=CALL, headers=HEADERS)
    assert answer.json()["result"]["content"][0]["text"] == "hi"
    assert httpx.get(f"{replica.url}/nowhere").status_code == 404
    assert f"{replica.url}/api/mcp" in httpx.get(f"{replica.url}/").text

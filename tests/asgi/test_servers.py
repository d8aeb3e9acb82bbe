"""The template under other ASGI servers than its own."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Iterator

import h2.connection
import h2.events
import httpx
import pytest
from server.asgi import run as asgi

from conftest import Server, StartServer, free_port, run, until
from mcp_swarm.settings import Settings
from mcp_swarm.settings.errors import StartupError
from tests.mcp import ENVELOPE, HEADERS, VERSION, request, text
from tests.test_drain import TIMED, finish

SERVERS = sorted(asgi.SERVERS)
CALL = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica under each."""
    name = request.param
    replica = Server(
        tmp_path_factory.mktemp(name) / "log", ASGI_SERVER=name, MCP_COMPONENTS="server,tests.packs.results"
    )
    replica.wait_ready()
    yield replica
    assert replica.stop() == 0


@pytest.mark.parametrize("http2", [False, True])
def test_calls_in_both_eras(server: Server, http2: bool) -> None:
    """Over HTTP/1.1, and over HTTP/2 without TLS for callers that begin with it."""
    with httpx.Client(base_url=server.url, http1=not http2, http2=http2) as client:
        answer = client.post("/mcp", json=CALL, headers=HEADERS)
        assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert answer.json()["result"]["content"][0]["text"] == "hi"
        assert answer.headers["x-served-by"]
        modern = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}, "_meta": ENVELOPE})
        headers = {**HEADERS, "MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
        assert client.post("/mcp", json=modern, headers=headers).json()["result"]["resultType"] == "complete"
        notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert client.post("/mcp", json=notification, headers=HEADERS).status_code == 202
        assert client.get("/mcp").status_code == 405
        assert client.post("/mcp", content=b"{", headers=HEADERS).status_code == 400
        assert client.get("/nowhere").status_code == 404


def test_all_of_a_large_body_and_no_more(server: Server) -> None:
    """In both directions."""
    with httpx.Client(base_url=server.url) as client:
        long = request("tools/call", {"name": "echo", "arguments": {"message": "ä" * 500_000}})
        assert client.post("/mcp", json=long, headers=HEADERS).json()["result"]["content"][0]["text"] == "ä" * 500_000
        assert client.post("/mcp", content=b"x" * 5_000_000, headers=HEADERS).status_code == 413


def test_calls_side_by_side_over_one_connection(server: Server) -> None:
    """What HTTP/2 is for; a thousand of them, after which hypercorn left to itself ends the connection."""

    async def calls() -> list[str]:
        async with httpx.AsyncClient(base_url=server.url, http1=False, http2=True, timeout=60) as client:

            async def call(number: int) -> str:
                params = {"name": "echo", "arguments": {"message": str(number)}}
                answer = await client.post("/mcp", json=request("tools/call", params), headers=HEADERS)
                assert answer.http_version == "HTTP/2"
                return text(answer.json()["result"])

            return await asyncio.gather(*map(call, range(1100)))

    assert asyncio.run(calls()) == [str(number) for number in range(1100)]


@pytest.mark.parametrize("name", SERVERS)
def test_a_reply_that_nobody_takes_is_let_go(start_server: StartServer, name: str) -> None:
    """With its place among the calls in flight, when the HTTP/2 connection has ended."""
    server = start_server(ASGI_SERVER=name, MAX_IN_FLIGHT="2")
    body = json.dumps(request("tools/call", {"name": "echo", "arguments": {"message": "x" * 200_000}})).encode()
    for _ in range(3):
        leave_at_the_first_part(server.port, body)

    def answered() -> bool:
        return httpx.post(f"{server.url}/mcp", json=CALL, headers=HEADERS).status_code == 200

    until(answered, "there is a place for another call")
    assert [answered() for _ in range(3)] == [True] * 3


def leave_at_the_first_part(port: int, body: bytes) -> None:
    """Send a request over HTTP/2, take less of the reply than fits into the window, and hang up."""
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    stream = connection.get_next_available_stream_id()
    names = {":method": "POST", ":path": "/mcp", ":scheme": "http", ":authority": f"127.0.0.1:{port}"}
    headers = {**names, **{name.lower(): value for name, value in HEADERS.items()}, "content-type": "application/json"}
    connection.send_headers(stream, list(headers.items()))
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sent = taken = 0
        while taken < 60_000:
            room = min(connection.local_flow_control_window(stream), connection.max_outbound_frame_size)
            while room > 0 and sent < len(body):
                part = body[sent : sent + room]
                sent += len(part)
                connection.send_data(stream, part, end_stream=sent == len(body))
                room = min(connection.local_flow_control_window(stream), connection.max_outbound_frame_size)
            sock.sendall(connection.data_to_send())
            data = sock.recv(65536)
            assert data
            for event in connection.receive_data(data):
                taken += len(event.data) if isinstance(event, h2.events.DataReceived) else 0


@pytest.mark.parametrize("name", SERVERS)
def test_calls_in_flight_are_finished(start_server: StartServer, name: str) -> None:
    """After SIGTERM, in both eras, as JSON and as event streams; longer than the drain lasts."""
    server = start_server(ASGI_SERVER=name, DRAIN_SECONDS="0.5", SHUTDOWN_GRACE_SECONDS="20", **TIMED)
    answers = asyncio.run(finish(server, 3))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert all("took 3 s" in answer.text for answer in answers)
    kinds = [answer.headers["Content-Type"].partition(";")[0] for answer in answers]
    assert kinds == ["application/json"] * 2 + ["text/event-stream"] * 2
    assert server.process.wait(10) == 0


@pytest.mark.parametrize("name", SERVERS)
def test_it_drains(start_server: StartServer, name: str) -> None:
    """Not ready, and serving on for `DRAIN_SECONDS`, so that a balancer can notice."""
    server = start_server(ASGI_SERVER=name, DRAIN_SECONDS="60")
    server.process.send_signal(signal.SIGTERM)
    until(lambda: httpx.get(f"{server.url}/readyz").status_code == 503, "it drains")
    assert httpx.post(f"{server.url}/mcp", json=CALL, headers=HEADERS).status_code == 200
    assert server.stop(signal.SIGINT) == 0


@pytest.mark.parametrize("name", SERVERS)
def test_a_start_that_fails(name: str) -> None:
    """The exit code of a refusal, and a line that says why."""
    done = run(
        sys.executable,
        "-m",
        "server",
        ASGI_SERVER=name,
        MCP_PORT=str(free_port()),
        LOOP_STALL_SECONDS="0",
        AUDIT_LOG="/dev/null/none",
    )
    assert done.returncode == 3
    assert "the audit log can't be opened" in done.stderr


@pytest.mark.parametrize("argument", [["--replicas", "2"], ["--reload"]])
def test_one_replica_only(argument: list[str]) -> None:
    """The others' supervisors are not this template's."""
    done = run(sys.executable, "-m", "server", *argument, ASGI_SERVER="granian")
    assert done.returncode == 3
    assert done.stderr.startswith("ASGI_SERVER=granian: ")


def test_settings_without_effect() -> None:
    """A sentence names them at the start."""
    done = run(sys.executable, "-m", "server", "--check", ASGI_SERVER="granian", MAX_CONNECTIONS="5")
    assert done.returncode == 0
    assert "Warning: MAX_CONNECTIONS: no effect with ASGI_SERVER=granian" in done.stderr


def test_a_server_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(StartupError, match=r"^ASGI_SERVER=granian needs .*mcp-swarm\[servers\].*EXTRAS=servers$"):
        asgi.check(Settings(asgi_server="granian"))

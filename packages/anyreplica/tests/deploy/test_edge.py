"""Tests of the edge proxy: a real HAProxy with `deploy/haproxy.cfg` in front of replicas on this machine."""

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path

import httpx
import pytest

from conftest import ROOT, Server, StartServer, environment, free_port, run, until
from tests.calls import HEADERS, call, modern, request
from tests.replicas import streaming

pytestmark = [pytest.mark.slow, pytest.mark.needs("haproxy")]

OPERATE = (ROOT / "docs" / "guides" / "operate.md").read_text()
"""The page with the commands for certificates."""


class Edge:
    """A HAProxy with the shipped configuration, but with other addresses.

    Args:
        folder: folder for its configuration.
        replicas: the replicas behind the proxy.
        certificate: file with a certificate and its key; the proxy then ends TLS as the configuration's comments say.
        hosts: addresses of the replicas, if they are not on this machine's own network.
        repeats: names of the tools that the proxy may call twice.
    """

    def __init__(
        self,
        folder: Path,
        replicas: list[Server],
        certificate: Path | None = None,
        hosts: Sequence[str] = (),
        repeats: str = "-",
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.replicas = replicas
        shipped = (ROOT / "deploy" / "haproxy.cfg").read_text()
        at = [f"{host}:{each.port}" for host, each in zip(hosts or repeat("127.0.0.1"), replicas, strict=False)]
        servers = "".join(f"    server mcp-{n} {each}\\1\n" for n, each in enumerate(at))
        config, count = re.subn(r" *server-template .* init-addr none(.*)\n", servers, shipped)
        config, bound = re.subn(r"bind :8000", f"bind 127.0.0.1:{self.port}", config)
        # Proxies of several tests share this machine's abstract sockets, so each one needs its own name.
        config, inner = re.subn(r"abns@requests", f"abns@requests-{self.port}", config)
        assert (count, bound, inner) == (1, 1, 2)
        if certificate is not None:
            self.secure_port = free_port()
            config = re.sub(r"# (?=bind :8443|http-re\w+ .*(?:ssl_fc|Strict-Transport))", "", config)
            config = config.replace(":8443", f"127.0.0.1:{self.secure_port}")
            config = config.replace("/run/secrets/edge_pem", str(certificate))
        file = folder / "haproxy.cfg"
        file.write_text(config)
        environ = {**os.environ, "REPEAT_TOOLS": repeats}
        command: list[str | Path] = ["haproxy", "-f", file]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True, env=environ)

    def wait_ready(self) -> None:
        """Wait until the proxy uses all replicas."""
        until(lambda: self.ready() == {each.port for each in self.replicas}, "the proxy uses all replicas")

    def stop(self) -> None:
        """Stop the proxy."""
        self.process.terminate()
        self.process.wait(60)

    def ready(self) -> set[int]:
        """Return the ports of the replicas that answer through the proxy."""
        found: set[str] = set()
        with contextlib.suppress(httpx.HTTPError):
            found = {httpx.get(f"{self.url}/version").headers.get("X-Served-By", "") for _ in range(6)}
        return {each.port for n, each in enumerate(self.replicas) if f"replica-{n}" in found}

    def load(self, file: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start the load test with the proxy as its target."""
        command = [sys.executable, "test_swarm_load.py", "--url", f"{self.url}/mcp", "--json", str(file), *arguments]
        return subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)


@pytest.fixture
def edge(start_server: StartServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Edge]:
    """A proxy with three replicas behind it."""
    settings: dict[str, str] = {"DRAIN_SECONDS": "3", **getattr(request, "param", {})}
    replicas = [start_server(ready=False, REPLICA_NAME=f"replica-{number}", **settings) for number in range(3)]
    for replica in replicas:
        replica.wait_ready()
    proxy = Edge(tmp_path, replicas)
    try:
        proxy.wait_ready()
        yield proxy
    finally:
        proxy.stop()


def test_each_request_goes_to_another_replica(edge: Edge) -> None:
    """The requests of one connection go to the replicas in turn, and those of the stateless protocol pass, too."""
    served = Counter[str]()
    with httpx.Client(base_url=edge.url) as client:
        echo = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
        for _ in range(30):
            reply = client.post("/mcp", json=echo, headers=HEADERS)
            assert reply.status_code == 200
            served[reply.headers["X-Served-By"]] += 1
    assert sorted(served.values()) == [10, 10, 10]
    assert modern(edge.url, "tools/list").status_code == 200


@pytest.mark.parametrize(
    ("number", "seconds", "answered", "lost"), [(signal.SIGTERM, 8, 1, 0), (signal.SIGKILL, 6, 51, 20)]
)
def test_a_replica_that_ends_under_load(
    edge: Edge, tmp_path: Path, number: int, seconds: int, answered: int, lost: int
) -> None:
    """A replica that drains costs no request, and a killed one at most those in flight; later ones go elsewhere."""
    file, replica = tmp_path / "run.json", edge.replicas[0]
    options = ("--rate", "200", "--concurrent", "20", "--expect-replicas", "3")
    load = edge.load(file, *options, "--duration", f"{seconds}s")
    until(lambda: replica.output.count("200 POST /mcp") >= answered, "the first replica has answered calls")
    replica.process.send_signal(number)
    assert replica.process.wait(60) == (0 if number == signal.SIGTERM else -number)
    output = load.communicate(timeout=60)[0]
    run = json.loads(file.read_text())
    assert run["requests"] == 200 * seconds, output
    assert sum(failure["count"] for failure in run["failures"]) <= lost, output


@pytest.mark.parametrize("edge", [{"MCP_COMPONENTS": "server,tests.packs.waiting"}], indirect=True)
def test_events_arrive_while_a_call_goes_on(edge: Edge) -> None:
    """The proxy forwards events while a call runs."""
    params = {"name": "report_and_wait", "arguments": {"key": "k"}, "_meta": {"progressToken": 1}}
    asked = {"json": request("tools/call", params), "headers": HEADERS}
    with streaming(edge.url, asked) as (answer, messages):
        lines = map(json.dumps, messages)
        assert any("waiting for k" in line for line in lines)
        port = edge.replicas[int(answer.headers["X-Served-By"][-1])].url
        threading.Thread(target=call, args=(port, "release", {"key": "k"})).start()
        assert any('"text": "k"' in line for line in lines)


@pytest.mark.parametrize("edge", [{"MCP_COMPONENTS": "server,tests.packs.timed"}], indirect=True)
def test_a_disconnect_cancels_the_call(edge: Edge) -> None:
    """When a caller goes away, its call is cancelled at once."""
    asked = request("tools/call", {"name": "take", "arguments": {"seconds": 30}})
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{edge.url}/mcp", json=asked, headers=HEADERS, timeout=0.5)
    line = "499 POST /mcp tools/call take"
    until(lambda: any(line in each.output for each in edge.replicas), "a replica logs the call with status 499", 5)


def test_without_replicas_the_proxy_answers_with_503(edge: Edge) -> None:
    """Without a replica, the proxy answers with 503 as JSON, with Retry-After."""
    for replica in edge.replicas:
        replica.process.kill()

    def told() -> bool:
        try:
            reply = httpx.post(f"{edge.url}/mcp", json=request("tools/list"), headers=HEADERS, timeout=60)
        except httpx.RemoteProtocolError:  # the proxy still had a connection to a killed replica
            return False
        said = (reply.status_code, reply.headers.get("Retry-After"))
        return said == (503, "1") and reply.json()["error"]["message"].startswith("No replica")

    until(told, "the proxy answers with 503 as JSON")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 404),
        (b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n", 408),
    ],
)
def test_the_errors_of_the_proxy_are_json(edge: Edge, sent: bytes, status: int) -> None:
    """The proxy's own errors are JSON, like those of a replica."""
    with socket.create_connection(("127.0.0.1", edge.port)) as connection:
        connection.settimeout(30)
        connection.sendall(sent)
        answer = b""
        while b"}}" not in answer and (part := connection.recv(65536)):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body)["error"]["message"]


def test_every_error_of_the_proxy_is_json() -> None:
    """The configuration replaces each HTML page of HAProxy's errors (its manual, http-error) by JSON."""
    shipped = (ROOT / "deploy" / "haproxy.cfg").read_text()
    told = dict(re.findall(r"http-error status (\d+) content-type application/json .*string '(.*)'", shipped))
    assert told.keys() == {"400", "403", "404", "408", "500", "502", "503", "504"}
    for status, body in told.items():
        assert json.loads(body)["error"]["code"] == (-32600 if status.startswith("4") else -32000)


@pytest.mark.servers
def test_the_line_for_ipv6_is_valid(tmp_path: Path) -> None:
    """HAProxy accepts the configuration with the line for IPv6 enabled."""
    config, count = re.subn(r"# (?=bind :::8000)", "", (ROOT / "deploy" / "haproxy.cfg").read_text())
    assert count == 1
    (tmp_path / "haproxy.cfg").write_text(config)
    checked = run("haproxy", "-c", "-f", str(tmp_path / "haproxy.cfg"), REPEAT_TOOLS="-")
    assert checked.returncode == 0, checked.stderr


def test_tls_ends_at_the_edge(start_server: StartServer, tmp_path: Path) -> None:
    """With its TLS lines, the proxy serves TLS 1.2 or newer, offers HTTP/2, and redirects plain HTTP to HTTPS."""
    pem = tmp_path / "edge.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", "-", "-out", "-"]
    pem.write_bytes(subprocess.run(make, capture_output=True, check=True).stdout)
    edge = Edge(tmp_path, [start_server(REPLICA_NAME="replica-0")], certificate=pem)
    try:
        trusting = ssl.create_default_context(cafile=str(pem))
        secure = f"https://localhost:{edge.secure_port}"

        def served() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return bool(httpx.get(f"{secure}/version", verify=trusting).headers.get("X-Served-By") == "replica-0")
            return False

        until(served, "the proxy serves the replica over HTTPS")
        show = "openssl s_client -connect localhost:443 </dev/null 2>/dev/null | openssl x509 -noout -enddate"
        assert show in OPERATE
        told = run("bash", "-o", "pipefail", "-c", show.replace("443", f"{edge.secure_port}"))
        assert re.fullmatch(r"notAfter=\w+ +\d+ [\d:]+ \d+ GMT\n", told.stdout), told.stderr
        compare = re.search(r"openssl x509 -noout -pubkey .*$", OPERATE, re.MULTILINE)
        assert compare
        keys = run("bash", "-c", re.sub(r"(?:fullchain|privkey)\.pem", str(pem), compare[0])).stdout.splitlines()
        assert len(keys) == 2
        assert keys[0] == keys[1]
        with httpx.Client(verify=trusting) as client:
            reply = client.post(f"{secure}/mcp", json=request("tools/list"), headers=HEADERS)
            assert reply.status_code == 200
            assert reply.headers["Strict-Transport-Security"] == "max-age=31536000"
            plain = client.post(f"{edge.url}/mcp", json=request("tools/list"), headers=HEADERS)
            assert plain.status_code == 308
            assert plain.headers["Location"].startswith("https://")
        trusting.set_alpn_protocols(["h2"])
        with (
            socket.create_connection(("localhost", edge.secure_port)) as raw,
            trusting.wrap_socket(raw, server_hostname="localhost") as connection,
        ):
            assert connection.selected_alpn_protocol() == "h2"
            assert connection.version() in ("TLSv1.2", "TLSv1.3")
    finally:
        edge.stop()

"""Tests of `deploy/autoscale.yml`: the merged stack, and the proxy in front of Docker's API as a real process."""

import asyncio
import contextlib
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from anyreplica.autoscale.policy import Policy, policy_of
from anyreplica.autoscale.service import DockerApi, Service
from conftest import ROOT, free_port, until
from tests.deploy.test_jobs import merged, secrets_of

pytestmark = pytest.mark.servers


@pytest.mark.needs("docker")
def test_only_the_autoscaler_reaches_the_api() -> None:
    """Only the autoscaler and the proxy are in the internal network of the API, and neither publishes a port."""
    stack = merged("deploy/autoscale.yml", "deploy/jobs.yml", "deploy/observability.yml", "deploy/edge.yml")
    services = stack["services"]
    inside = {name for name, service in services.items() if "docker-api" in (service.get("networks") or {})}
    assert inside == {"autoscale", "docker-api"}
    assert stack["networks"]["docker-api"]["internal"] is True
    assert set(services["docker-api"]["networks"]) == {"docker-api"}
    assert not any("ports" in services[name] for name in inside)
    sockets = {name for name, service in services.items() if "docker.sock" in str(service.get("volumes"))}
    assert sockets == {"docker-api"}
    for name in inside:
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
    assert secrets_of(services["autoscale"]) == {"metrics_token"}
    assert services["docker-api"]["deploy"]["placement"]["constraints"] == ["node.role==manager"]


@pytest.mark.needs("docker")
@pytest.mark.parametrize(
    "overlays",
    [
        ("deploy/autoscale.yml",),
        ("deploy/autoscale.yml", "deploy/observability.yml"),
        ("deploy/observability.yml", "deploy/autoscale.yml"),
    ],
)
def test_the_autoscaler_gets_another_secret_with_the_replicas(overlays: tuple[str, ...]) -> None:
    """METRICS_TOKEN_SECRET names the secret of the replicas and of all that read their metrics."""
    for settings, name in (({}, "metrics_token"), ({"METRICS_TOKEN_SECRET": "metrics_token_2"}, "metrics_token_2")):
        stack = merged(*overlays, **settings)
        assert stack["secrets"]["metrics_token"] == {"name": name, "external": True}
        for service in {"mcp", "autoscale", "prometheus"} & stack["services"].keys():
            assert "metrics_token" in secrets_of(stack["services"][service])


@pytest.mark.needs("docker")
def test_the_labels_make_policies() -> None:
    """The labels of the overlays are those that the autoscaler reads."""
    assert merged("deploy/autoscale.yml")["secrets"]["metrics_token"]["external"] is True
    services = merged("deploy/autoscale.yml", "deploy/jobs.yml", AUTOSCALE_MAX="7")["services"]
    assert policy_of(services["mcp"]["deploy"]["labels"]) == Policy(3, 7, 0.6)
    assert policy_of(services["worker"]["deploy"]["labels"]) is None
    services = merged("deploy/autoscale.yml", "deploy/jobs.yml", AUTOSCALE_WORKERS="true")["services"]
    assert policy_of(services["worker"]["deploy"]["labels"]) == Policy(2, 10, 0.6, queue_of="mcp")


UNWANTED = ("Upgrade", "HTTP2-Settings", "Transfer-Encoding", "Expect")
"""Headers that must not reach the engine."""


class _Recorder(BaseHTTPRequestHandler):
    """Answers every request, and notes it."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def address_string(self) -> str:
        """Return a text, because a Unix socket has no address."""
        return "proxy"

    def answer(self) -> None:
        """Note the request, and its unwanted headers."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        unwanted = [name for name in UNWANTED if name in self.headers]
        self.server.seen.append((" ".join([self.command, *unwanted]), self.path))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = answer  # noqa: N815


@contextlib.contextmanager
def proxied(folder: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Run the proxy in front of a stand-in for the engine. Yields the proxy's URL and the requests that passed."""
    at, port = folder / "docker.sock", free_port()
    shipped = (ROOT / "deploy" / "docker-api.cfg").read_text()
    config = shipped.replace("bind :2375", f"bind 127.0.0.1:{port}").replace("/var/run/docker.sock", str(at))
    assert config != shipped
    (folder / "haproxy.cfg").write_text(config)
    seen: list[tuple[str, str]] = []
    with socketserver.ThreadingUnixStreamServer(str(at), _Recorder) as engine:
        engine.daemon_threads = True
        engine.seen = seen  # type: ignore[attr-defined]
        threading.Thread(target=engine.serve_forever, args=(0.02,), daemon=True).start()
        command = ["haproxy", "-f", str(folder / "haproxy.cfg")]
        with (folder / "log").open("w") as log:
            proxy = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: _answers(url), lambda: f"the proxy answers; it printed:\n{(folder / 'log').read_text()}")
            seen.clear()
            yield url, seen
        finally:
            proxy.kill()
            proxy.wait()
            engine.shutdown()


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/services").status_code == 200
    return False


ALLOWED = [("GET", "/services"), ("GET", "/tasks?filters=%7B%7D")]
ALLOWED += [("POST", "/services/0pcb3nxm5rxgs1a9v2z6h9yk6/update?version=7")]
_REFUSED = r"""
GET /containers/json /secrets /configs /info /services/abc /services/../secrets /services%2f..%2fsecrets /v1.44/secrets
GET //secrets /services?status=true /services/ /services;a /services#a /services%00 /%73ervices /services/%2e%2e/secrets
GET /./services //services \services services * http://docker/services http://docker/secrets /tasks
GET /tasks?filters=%7B%7D&a=b
POST /services /services/create /services/abc/../create /services/../containers/update
POST /services/a%2F..%2F..%2Fsecrets/update /services/abc/update/ /containers/create /containers/abc/update
POST /secrets/create /tasks /exec/abc/start http://docker/services/abc/update?version=7 /services/abc/update
POST /services/abc/update?version= /services/abc/update?version=7&rollback=previous /services/ABC/update?version=7
POST /services/abc/update?registryAuthFrom=spec&version=7 /services/abc%2Fcreate/update?version=7
POST /services//update?version=7
DELETE /services/abc /services/abc/update
PUT /services/abc/update
PATCH /services/abc/update
HEAD /services
OPTIONS /services
CONNECT /services
TRACE /services
get /services
"""
REFUSED = [(line.split()[0], path) for line in _REFUSED.strip().splitlines() for path in line.split()[1:]]


@pytest.mark.needs("haproxy")
def test_the_proxy_lets_pass_only_what_is_needed(tmp_path: Path) -> None:
    """Reading services and tasks passes, and changing a service. The engine gets nothing else."""
    with proxied(tmp_path) as (url, seen):
        for method, path in ALLOWED:
            assert httpx.request(method, f"{url}{path}").status_code == 200, (method, path)
        assert seen == ALLOWED
        for method, path in REFUSED:
            assert _status(url, method, path) in (400, 403), (method, path)
        assert seen == ALLOWED
        assert "POST /services/0pcb3nxm5rxgs1a9v2z6h9yk6/update" in (tmp_path / "log").read_text(), "changes are logged"
        assert "GET /tasks" not in (tmp_path / "log").read_text()


@pytest.mark.needs("haproxy")
def test_the_autoscaler_passes_the_proxy(tmp_path: Path) -> None:
    """The three requests of the autoscaler, with its own client, reach the engine."""
    spec = {"Name": "mcp", "Labels": {"text": "x" * 100_000}, "Mode": {"Replicated": {"Replicas": 1}}}
    service = Service.of({"ID": "0pcb3nxm5rxg", "Version": {"Index": 7}, "Spec": spec})

    async def run(url: str) -> None:
        docker = DockerApi(url)
        assert await docker.services() == ([], [])
        assert await docker.tasks(service) == []
        await docker.scale(service, 2)
        await docker.close()

    with proxied(tmp_path) as (url, seen):
        asyncio.run(run(url))
        paths = [f"{method} {path.partition('?')[0]}" for method, path in seen]
        assert paths == ["GET /services", "GET /tasks", "POST /services/0pcb3nxm5rxg/update"]


LIST = b"GET /services HTTP/1.1\r\nHost: docker\r\n"
UPDATE = b"POST /services/abc/update?version=7 HTTP/1.1\r\nHost: docker\r\n"
BEHIND = b"GET /secrets HTTP/1.1\r\nHost: docker\r\n\r\n"
"""A request that the engine must never get."""

REQUESTS = {
    "upgrade to h2c": LIST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n\r\n",
    "upgrade to tcp": LIST + b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n" + BEHIND,
    "upgrade without connection": LIST + b"uPgRaDe: websocket\r\n\r\n" + BEHIND,
    "settings of HTTP/2": LIST + b"Connection: HTTP2-Settings\r\nHTTP2-Settings: AAMA\r\n\r\n",
    "HTTP/2 at once": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" + BEHIND,
    "chunks": UPDATE + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "chunks and a length": UPDATE + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + BEHIND,
    "another encoding": UPDATE + b"Content-Length: 2\r\nTransfer-Encoding: identity\r\n\r\n{}" + BEHIND,
    "an odd encoding": UPDATE + b"Content-Length: 2\r\nTransfer-Encoding: \x0bchunked\r\n\r\n{}" + BEHIND,
    "two lengths": UPDATE + b"Content-Length: 2\r\nContent-Length: 50\r\n\r\n{}" + BEHIND,
    "a length with a sign": UPDATE + b"Content-Length: +2\r\n\r\n{}" + BEHIND,
    "a body of a read": LIST + b"Content-Length: 46\r\n\r\n" + BEHIND,
    "chunks of a read": LIST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + BEHIND,
    "a large body": UPDATE + b"Content-Length: 1048577\r\n\r\n",
    "a line in a name": LIST + b"A\nB: c\r\n\r\n" + BEHIND,
    "a space before the colon": LIST + b"Content-Length : 5\r\n\r\n" + BEHIND,
    "a folded head": LIST + b"A: b\r\n Upgrade: tcp\r\nUpgrade:\r\n tcp\r\n\r\n" + BEHIND,
    "HTTP/0.9": b"GET /secrets\r\n\r\n",
    "no version": b"GET /services\r\n\r\n" + BEHIND,
}


@pytest.mark.needs("haproxy")
def test_the_proxy_makes_no_tunnel(tmp_path: Path) -> None:
    """A request that could turn the connection into another one, or hide a second request, reaches no engine."""
    with proxied(tmp_path) as (url, seen):
        for name, request in REQUESTS.items():
            answer = _raw(url, request)
            statuses = {line[:12] for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.")}
            assert statuses <= {b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 413", b"HTTP/1.1 501"}, (name, answer)
            assert seen == [], name
        assert httpx.get(f"{url}/services").status_code == 200, "good clients are served"
        # HAProxy itself removes the upgrade of a request with a body. The rest of the connection is still checked.
        head = b"Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 2\r\n\r\n{}"
        assert b"HTTP/1.1 403" in _raw(url, UPDATE + head + BEHIND)
        assert seen.pop() == ("POST", "/services/abc/update?version=7")
        # HAProxy itself answers the header Expect.
        assert _raw(url, UPDATE + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}").count(b"HTTP/1.1 200") == 1
        assert seen.pop() == ("POST", "/services/abc/update?version=7")
        override = {"X-HTTP-Method-Override": "DELETE", "X-Original-URL": "/secrets"}
        assert httpx.get(f"{url}/services", headers=override).status_code == 200
        assert seen == [("GET", "/services")] * 2


@pytest.mark.needs("haproxy")
def test_the_proxy_does_not_wait_for_a_slow_request(tmp_path: Path) -> None:
    """A head or a body that does not arrive ends after five seconds, and reaches no engine."""
    with proxied(tmp_path) as (url, seen):
        host, port = url.removeprefix("http://").split(":")
        with contextlib.ExitStack() as stack:
            slow = [stack.enter_context(socket.create_connection((host, int(port)), timeout=12)) for _ in range(2)]
            slow[0].sendall(LIST)
            slow[1].sendall(UPDATE + b"Content-Length: 200\r\n\r\n{")
            assert httpx.get(f"{url}/services").status_code == 200, "good clients are served"
            assert [each.recv(12) for each in slow] == [b"HTTP/1.1 408"] * 2
        assert seen == [("GET", "/services")]


def _raw(url: str, request: bytes) -> bytes:
    """Send bytes, and return all that comes back until the proxy closes the connection or is silent."""
    host, port = url.removeprefix("http://").split(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=1) as connection:
        connection.sendall(request)
        with contextlib.suppress(OSError):
            while part := connection.recv(65_536):
                answer += part
    return answer


def _status(url: str, method: str, path: str) -> int:
    """Send a path as it is: HTTP clients would make it shorter."""
    return int(_raw(url, f"{method} {path} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n".encode())[9:12])

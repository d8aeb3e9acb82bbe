"""Tests of `deploy/autoscale.yml`: the merged stack, and the proxy in front of Docker's API as a real process."""

import contextlib
import http.client
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
from conftest import ROOT, free_port, until
from tests.deploy.test_jobs import merged, secrets_of


@pytest.mark.needs("docker")
def test_only_the_autoscaler_reaches_the_api() -> None:
    """Only the autoscaler and the proxy are in the network of the API, which leads nowhere else.

    No port is published.
    """
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
def test_the_labels_make_policies() -> None:
    """The labels of the overlays are those that the autoscaler reads."""
    assert merged("deploy/autoscale.yml")["secrets"]["metrics_token"]["external"] is True
    services = merged("deploy/autoscale.yml", "deploy/jobs.yml", AUTOSCALE_MAX="7")["services"]
    assert policy_of(services["mcp"]["deploy"]["labels"]) == Policy(3, 7, 0.6)
    assert policy_of(services["worker"]["deploy"]["labels"]) is None
    services = merged("deploy/autoscale.yml", "deploy/jobs.yml", AUTOSCALE_WORKERS="true")["services"]
    assert policy_of(services["worker"]["deploy"]["labels"]) == Policy(2, 10, 0.6, queue_of="mcp")


class _Recorder(BaseHTTPRequestHandler):
    """Answers every request, and notes it."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def address_string(self) -> str:
        """Return a text, because a Unix socket has no address."""
        return "proxy"

    def answer(self) -> None:
        """Note the request."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append((self.command, self.path))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")


for _method in ("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"):
    setattr(_Recorder, f"do_{_method}", _Recorder.answer)


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
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        command = ["haproxy", "-f", str(folder / "haproxy.cfg")]
        with (folder / "log").open("w") as log:
            proxy = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: _answers(url), f"the proxy answers; it printed:\n{(folder / 'log').read_text()}")
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


@pytest.mark.needs("haproxy")
def test_the_proxy_lets_pass_only_what_is_needed(tmp_path: Path) -> None:
    """Reading services and tasks passes, and changing a service. The engine gets nothing else."""
    allowed = [
        ("GET", "/services"),
        ("GET", "/tasks?filters=%7B%7D"),
        ("POST", "/services/0pcb3nxm5rxgs1a9v2z6h9yk6/update?version=7"),
    ]
    refused = [
        ("GET", "/containers/json"),
        ("GET", "/secrets"),
        ("GET", "/configs"),
        ("GET", "/info"),
        ("GET", "/services/abc"),
        ("GET", "/services/../secrets"),
        ("GET", "/services%2f..%2fsecrets"),
        ("GET", "/v1.44/secrets"),
        ("GET", "//secrets"),
        ("HEAD", "/services"),
        ("POST", "/services"),
        ("POST", "/services/create"),
        ("POST", "/services/abc/../create"),
        ("POST", "/services/../containers/update"),
        ("POST", "/services/a%2F..%2F..%2Fsecrets/update"),
        ("POST", "/services/abc/update/"),
        ("POST", "/containers/create"),
        ("POST", "/containers/abc/update"),
        ("POST", "/secrets/create"),
        ("POST", "/tasks"),
        ("POST", "/exec/abc/start"),
        ("DELETE", "/services/abc"),
        ("PUT", "/services/abc/update"),
        ("DELETE", "/services/abc/update"),
        ("PATCH", "/services/abc/update"),
        ("OPTIONS", "/services"),
    ]
    with proxied(tmp_path) as (url, seen):
        for method, path in allowed:
            assert httpx.request(method, f"{url}{path}").status_code == 200, (method, path)
        assert seen == allowed
        for method, path in refused:
            assert _status(url, method, path) in (400, 403), (method, path)
        assert seen == allowed
        assert "POST /services/0pcb3nxm5rxgs1a9v2z6h9yk6/update" in (tmp_path / "log").read_text(), "changes are logged"
        assert "GET /tasks" not in (tmp_path / "log").read_text()


def _status(url: str, method: str, path: str) -> int:
    """Send a path as it is: HTTP clients would make it shorter."""
    host, port = url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()

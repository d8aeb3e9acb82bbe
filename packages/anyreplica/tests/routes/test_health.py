"""Tests of the probes: alive, ready, draining."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from anyreplica.process.lifecycle import Lifecycle
from anyreplica.routes.health import health_routes
from anyreplica.settings.replica import PathSettings
from conftest import StartServer, until

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize(("path", "said"), [("/healthz", "alive"), ("/health", "alive"), ("/readyz", "ready")])
def test_alive_and_ready(local_url: str, path: str, said: str) -> None:
    """A replica that serves is alive and ready."""
    reply = httpx.get(local_url + path)
    assert (reply.status_code, reply.json()) == (200, {"status": said})


def test_not_ready_while_starting() -> None:
    """A starting replica is alive but not ready."""
    client = TestClient(Starlette(routes=health_routes(Lifecycle(0), PathSettings())))
    reply = client.get("/readyz")
    assert (reply.status_code, reply.json(), reply.headers["Retry-After"]) == (503, {"status": "starting"}, "1")
    assert client.get("/healthz").status_code == 200


def test_a_draining_replica_is_not_ready_but_serves(start_server: StartServer) -> None:
    """After SIGTERM a replica is not ready and still answers new connections. A second SIGTERM ends the drain."""
    server = start_server(DRAIN_SECONDS="600")
    server.process.terminate()
    until(lambda: httpx.get(f"{server.url}/readyz").status_code == 503, "/readyz answers with 503")
    assert httpx.get(f"{server.url}/version").json()["status"] == "draining"
    assert httpx.get(f"{server.url}/healthz").status_code == 200
    server.process.terminate()
    assert server.process.wait(60) == 0
    assert "SIGTERM received: draining for 600 s, then stopping" in server.output
    assert server.output.splitlines()[-1].endswith("anyreplica.process.lifecycle - INFO - Stopped")

"""Tests of the probes: alive, ready, draining."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from anyreplica.process.lifecycle import Lifecycle
from anyreplica.routes.health import health_routes
from conftest import Server, StartServer, until

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("path", ["/healthz", "/health"])
def test_alive(local_url: str, path: str) -> None:
    """`/healthz` and `/health` answer "alive" in every state of the replica."""
    reply = httpx.get(local_url + path)
    assert (reply.status_code, reply.json()) == (200, {"status": "alive"})


def test_ready(local_url: str) -> None:
    """`/readyz` answers "ready" while the replica serves."""
    reply = httpx.get(f"{local_url}/readyz")
    assert (reply.status_code, reply.json()) == (200, {"status": "ready"})


def test_not_ready_while_starting() -> None:
    """A starting replica is alive but not ready."""
    client = TestClient(Starlette(routes=health_routes(Lifecycle(0))))
    reply = client.get("/readyz")
    assert (reply.status_code, reply.json(), reply.headers["Retry-After"]) == (503, {"status": "starting"}, "1")
    assert client.get("/healthz").status_code == 200


def status(server: Server) -> int:
    """Return the HTTP status of `/readyz`."""
    return httpx.get(f"{server.url}/readyz").status_code


def test_a_draining_replica_is_not_ready_but_serves(start_server: StartServer) -> None:
    """After SIGTERM a replica is not ready, still answers new connections, and then exits with 0."""
    server = start_server(DRAIN_SECONDS="2")
    server.process.terminate()
    until(lambda: status(server) == 503, "/readyz answers with 503")
    assert httpx.get(f"{server.url}/version").json()["status"] == "draining"
    assert httpx.get(f"{server.url}/healthz").status_code == 200
    assert server.process.wait(60) == 0
    assert "SIGTERM received: draining for 2 s, then stopping" in server.output
    assert server.output.splitlines()[-1].endswith("anyreplica.process.lifecycle - INFO - Stopped")

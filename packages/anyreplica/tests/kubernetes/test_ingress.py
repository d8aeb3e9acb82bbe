"""The release behind an ingress controller (Traefik) with TLS, below a path, and while its replicas are replaced."""

import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import until
from tests.calls import BOTH, HEADERS, request
from tests.kubernetes.in_flight import OpenCalls
from tests.kubernetes.release import TLS_PORT, URL, Release, kubectl
from tests.process.test_drain import sent
from tests.swarm.stack import failures, load
from tests.swarm.test_events import end

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]

RATE = 20
"""Requests per second, each on a connection with TLS."""
SECURE = f"https://localhost:{TLS_PORT}"
SILENT_SECONDS = 100
"""Duration of a call during which nothing is sent. Many ingress controllers have time limits of 50 to 60 s."""

_SECRET = "shop-tls"


def behind(*paths: str) -> dict[str, Any]:
    """Return the values of an Ingress for these paths."""
    given = {"enabled": True, "className": "traefik", "hosts": ["localhost"], "tls": {"secretName": _SECRET}}
    return {"ingress": {**given, "paths": list(paths)}}


@pytest.fixture(scope="module")
def trusted(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The release behind the ingress, and the certificate of its name."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "localhost.pem", folder / "localhost.key"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    make += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    kubectl("create", "secret", "tls", _SECRET, f"--cert={certificate}", f"--key={key}")
    env = {"MCP_COMPONENTS": "server,timed", "CALL_TIMEOUT_SECONDS": 2 * SILENT_SECONDS}
    release.install("good", env=env, **behind("/mcp", "/.well-known"))
    release.wait()
    try:
        with httpx.Client(verify=trusting(certificate)) as client:
            until(lambda: listed(client).status_code == 200, "the ingress reaches the replicas", 60)
        yield certificate
    finally:
        kubectl("delete", "secret", _SECRET)
        release.install("good")
        release.wait()


def trusting(certificate: Path) -> ssl.SSLContext:
    """Return settings of TLS that trust this certificate."""
    return ssl.create_default_context(cafile=str(certificate))


@pytest.fixture
def client(trusted: Path) -> Iterator[httpx.Client]:
    """A client that trusts the certificate."""
    with httpx.Client(verify=trusting(trusted), timeout=2 * SILENT_SECONDS) as client:
        yield client


def listed(client: httpx.Client, path: str = "/mcp") -> httpx.Response:
    """Ask for the list of tools."""
    return client.post(f"{SECURE}{path}", json=request("tools/list"), headers=HEADERS)


def test_only_the_paths_of_the_ingress_are_reached(client: httpx.Client) -> None:
    """The metrics and the console stay in the cluster."""
    assert listed(client).headers["X-Served-By"]
    assert [client.get(f"{SECURE}{path}").status_code for path in ("/", "/metrics", "/mcpx")] == [404] * 3


def test_each_request_may_go_to_another_replica(client: httpx.Client) -> None:
    """The controller balances requests, not connections: one client reaches all replicas."""
    assert len({listed(client).headers["X-Served-By"] for _ in range(30)}) == 3


@pytest.mark.parametrize("family", ["legacy", "modern"])
def test_events_arrive_before_the_end(client: httpx.Client, family: str) -> None:
    """The controller keeps no events back: progress arrives while the tool works."""
    with client.stream("POST", f"{SECURE}/mcp", **sent("report_and_take", 10, family)) as reply:
        lines = (line for line in reply.iter_lines() if line.startswith("data:") and len(line) > len("data: "))
        assert "half of it" in next(lines)
        reported = time.monotonic()
        assert "took 10 s" in next(lines)
        assert time.monotonic() - reported > 5


@pytest.mark.slow
def test_long_calls_end_with_their_result(client: httpx.Client) -> None:
    """Calls that are silent for longer than the usual time limits of proxies, as JSON and as events."""
    answers: list[str] = []

    def call(accept: str, family: str) -> None:
        given = sent("take", SILENT_SECONDS, family)
        given["headers"] = {**given["headers"], "Accept": accept}
        answers.append(client.post(f"{SECURE}/mcp", **given).text)

    ways = [(accept, family) for accept in (BOTH, "application/json") for family in ("legacy", "modern")]
    threads = [threading.Thread(target=call, args=way) for way in ways]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [f"took {SILENT_SECONDS} s" in answer for answer in answers] == [True] * len(ways), answers


@pytest.mark.slow
def test_an_update_fails_no_call(
    release: Release, trusted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling update fails no call over TLS, on kept and on fresh connections."""
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with load(SECURE, tmp_path, RATE) as running:
        running.wait_for(3 * RATE)
        kubectl("rollout", "restart", "deployment/shop")
        kubectl("rollout", "status", "deployment/shop", "--timeout=300s")
        release.wait()
        running.wait_for(int(RATE * (running.seconds + 5)))
        runs = running.stop()
    assert failures(runs) == []
    assert len({replica["name"] for each in runs for replica in each["replicas"]}) >= 6


@pytest.mark.slow
def test_a_replica_that_dies_costs_what_was_in_flight(release: Release, trusted: Path, client: httpx.Client) -> None:
    """The controller repeats no call that it has sent: exactly the calls fail that ran at the replica.

    It tries a failed connection again at another replica: no call fails that begins later, although the controller does
    not know yet that the replica has ended.
    """
    release.wait()
    restarts = release.restarts()
    calls = OpenCalls(SECURE, 20, trusting(trusted))
    end(URL, 137)
    until(lambda: len(calls.lost()) > 0, "the controller sees the end of the replica")
    later: set[int] = set()

    def whole() -> bool:
        later.update(listed(client).status_code for _ in range(6))
        return release.restarts() != restarts and len(release.ready()) == 3

    until(whole, "the replica is back", 120)
    (dead,) = [name for name, count in release.restarts().items() if count != restarts[name]]
    lost = calls.running.pop(dead)
    assert calls.served() == calls.running
    assert calls.lost() == ["502"] * lost
    assert later == {200}


@pytest.fixture
def below(release: Release, trusted: Path, client: httpx.Client) -> None:
    """The server has a path of its own, and a short time limit for calls."""
    env = {"MCP_COMPONENTS": "server,timed", "PUBLIC_URL": f"{SECURE}/shop", "CALL_TIMEOUT_SECONDS": 3}
    release.install("good", env=env, **behind("/shop"))
    release.wait()

    def reached() -> bool:
        return {listed(client, "/shop/mcp").status_code for _ in range(20)} == {200}

    until(reached, "no replica answers that was started without the path", 60)


@pytest.mark.slow
@pytest.mark.usefixtures("below")
def test_below_a_path(client: httpx.Client) -> None:
    """With `PUBLIC_URL`, a server has a path of its own on a host that others use, too."""
    assert listed(client).status_code == 404
    page = client.get(f"{SECURE}/shop/", headers={"Accept": "text/html"})
    assert "<title>" in page.text


@pytest.mark.slow
@pytest.mark.usefixtures("below")
def test_a_time_limit_of_the_replica_passes_the_ingress(client: httpx.Client) -> None:
    """The caller of a call that takes too long gets the error of the replica, and none of the controller."""
    for tool in ("take", "report_and_take"):
        for family in ("legacy", "modern"):
            reply = client.post(f"{SECURE}/shop/mcp", **sent(tool, 30, family))
            assert reply.status_code == 200
            assert reply.headers["X-Served-By"]
            assert f"tool '{tool}' did not finish within 3 s" in reply.text

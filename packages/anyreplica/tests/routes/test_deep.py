"""Tests of `/health/deep`, which runs the checks of the services that tools need."""

from pathlib import Path

import pytest

from conftest import StartServer, until
from tests.calls import get
from tests.metrics.page import Scrape
from tests.replicas import RedisServer
from tests.starts import start

PACK = """
import asyncio
from anyreplica.components.marks import check

@check
async def database():
    pass

@check(name="billing", seconds=0.2)
async def hangs():
    await asyncio.sleep(60)

@check
async def secret():
    raise OSError("password hunter2 is wrong")
"""
ONE = "@check\nasync def f(): ..."


def pack(folder: Path, source: str) -> dict[str, str]:
    """Write a module and return the settings that serve it."""
    (folder / "needing.py").write_text(source)
    return {"MCP_COMPONENTS": "server,needing", "PYTHONPATH": str(folder)}


@pytest.mark.smoke
def test_no_checks(local_url: str) -> None:
    """Without checks `/health/deep` is ok."""
    reply = get(f"{local_url}/health/deep")
    assert (reply.status_code, reply.json()) == (200, {"status": "ok", "checks": {}})


def test_checks_have_outcomes_and_times(start_server: StartServer, tmp_path: Path) -> None:
    """`/health/deep` shows each check's outcome and time. Only the log contains the reason of a failure.

    A failing check affects neither the readiness probe nor the error budget: it is no refused call.
    """
    server = start_server(**pack(tmp_path, PACK))
    reply = get(f"{server.url}/health/deep")
    assert reply.status_code == 503
    told = reply.json()
    assert told["status"] == "failing"
    assert {name: each["status"] for name, each in told["checks"].items()} == {
        "database": "ok",
        "billing": "no answer within 0.2 s",
        "secret": "failing",
    }
    assert all(each["ms"] >= 0 for each in told["checks"].values())
    assert "hunter2" not in reply.text
    reason = "Check 'secret' failed: OSError: password hunter2 is wrong"
    until(lambda: reason in server.output, "the log contains the reason of the failed check")
    assert get(f"{server.url}/readyz").status_code == 200
    assert get(f"{server.url}/version").status_code == 200
    until(lambda: "GET /version" in server.output, "the access log's entry of the later request")
    assert "GET /health/deep" not in server.output
    page = Scrape(server.url)
    assert page.value("mcp_refused_total") == 0
    assert page.value("mcp_requests_total") == 1


@pytest.mark.needs("redis")
def test_redis(start_server: StartServer, redis_server: RedisServer) -> None:
    """`/health/deep` checks Redis and the job queue if they are configured."""
    server = start_server(REDIS_URL=redis_server.url, JOBS_URL=redis_server.url)
    until(lambda: get(f"{server.url}/health/deep").status_code == 200, "/health/deep answers with 200")
    assert get(f"{server.url}/health/deep").json()["checks"].keys() == {"redis", "jobs"}
    redis_server.kill()
    until(lambda: get(f"{server.url}/health/deep").status_code == 503, "/health/deep answers with 503")
    for path in ("/healthz", "/readyz"):
        assert get(server.url + path).status_code == 200


@pytest.mark.parametrize("path", ["/health/deep", "/metrics"])
def test_an_unknown_caller_is_logged_and_counted(start_server: StartServer, path: str) -> None:
    """A client without a valid key on a path for probes appears in the access log, the audit log and the metrics."""
    key = {"Authorization": "Bearer " + "t" * 40}
    server = start_server(AUTH_ENABLED="true", AUTH_TOKEN="t" * 40, AUDIT_LOG="stdout")
    for wrong in ({"Authorization": "Bearer guess"}, {}):
        assert get(server.url + path, headers=wrong).status_code == 401
    assert get(server.url + path, headers=key).status_code == 200
    until(lambda: f"✗ 401 GET {path}" in server.output, "the access log's entry")
    until(lambda: f'"method":"GET {path}"' in server.output, "the audit log's entry")
    assert f"200 GET {path}" not in server.output
    assert Scrape(server.url, **key).value("mcp_refused_total", reason="auth") == 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("@check\ndef plain(): ...", "needing.py:3: TypeError: @check needs an async function without arguments"),
        ("@check\nasync def f(x): ...", "needing.py:3: TypeError: @check needs an async function without arguments"),
        (f"{ONE}\n@check(name='f')\nasync def g(): ...", "needing.py:5: check 'f' is already defined at"),
    ],
)
def test_an_invalid_check_stops_the_start(tmp_path: Path, source: str, said: str) -> None:
    """An invalid check stops the start with one line."""
    done = start("check", **pack(tmp_path, f"from anyreplica.components.marks import check\n\n{source}\n"))
    assert done.returncode == 3
    assert said in done.stderr

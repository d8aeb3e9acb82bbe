"""Tests of the extension points, with which an author extends a server without changing the package anyreplica."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from conftest import Server, StartServer, run, until
from tests.calls import call, legacy, text
from tests.replicas import RedisServer
from tests.starts import start

_RUN = ("-m", "anyreplica", "run", "tests.extended:create_app")


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of `tests.extended`."""
    folder = tmp_path_factory.mktemp("extended")
    (folder / "greeting_key").write_text("a secret")
    settings = {"MCP_COMPONENTS": "tests.extended", "GREETING": "Hi", "SECRETS_DIR": str(folder)}
    with Server(folder / "log", command=_RUN, **settings) as server:
        yield server


def test_settings_lifespan_and_middleware(extended: Server) -> None:
    """A tool sees a setting, a secret file, the open lifespan and an argument that FastMCP middleware has changed."""
    assert text(call(extended.url, "greet", {"name": "Ada"})) == "Hi, dear Ada! ['pool'] a secret"


def test_routes_and_asgi_middleware(extended: Server) -> None:
    """The author's route answers, and the author's ASGI middleware surrounds all routes."""
    reply = httpx.get(f"{extended.url}/hello?name=Ada")
    assert (reply.status_code, reply.text) == (200, "hello Ada")
    for each in (reply, legacy(extended.url, "tools/list"), httpx.get(f"{extended.url}/version")):
        assert float(each.headers["x-took"]) > 0
        assert each.headers["x-served-by"]


def test_an_own_feature(extended: Server) -> None:
    """The author's feature adds a middleware, an open route and an observer of all requests."""
    before = int(httpx.get(f"{extended.url}/errors").text.rpartition(" ")[2])
    httpx.get(f"{extended.url}/nowhere")
    reply = httpx.get(f"{extended.url}/errors")
    assert int(reply.text.rpartition(" ")[2]) == before + 1
    assert float(reply.headers["x-feature"]) > 0


def test_log_and_metrics_name_the_tool_of_a_call_through_own_middleware(extended: Server) -> None:
    """The access log and the metrics name the tool of a call that passed the author's middleware."""
    call(extended.url, "greet", {"name": "Ada"})
    until(lambda: "POST /mcp tools/call greet" in extended.output, "the access log names the tool")
    counted = httpx.get(f"{extended.url}/metrics").text
    assert 'outcome="ok",path="fast",protocol="handshake",tool="greet"} ' in counted


def test_a_replica_waits_until_its_lifespans_have_closed(start_server: StartServer) -> None:
    """A replica waits for a lifespan that takes longer than one second to close."""
    server = start_server(command=_RUN, MCP_COMPONENTS="tests.extended", CLOSING_SECONDS="1.5")
    server.stop()
    assert "the pool is closed" in server.output
    assert "the feature saw the drain" in server.output


_EMBEDDED = """
import threading
from starlette.testclient import TestClient
from tests.extended import create_app
with TestClient(create_app(), base_url="http://localhost") as client:
    assert client.get("/hello").text == "hello you"
print([each for each in threading.enumerate() if isinstance(each, threading.Timer)])
"""


@pytest.mark.servers
def test_an_embedded_app_does_not_end_the_process() -> None:
    """An app that a test client or another program serves does not end the process."""
    done = run(sys.executable, "-c", _EMBEDDED, MCP_COMPONENTS="tests.extended")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]"), done.stderr


def test_a_job_sees_the_open_lifespan(extended: Server) -> None:
    """A job sees the open lifespan in a replica that runs its jobs itself."""
    assert _result(extended.url) == ["pool"]


@pytest.mark.needs("redis")
def test_a_worker_opens_and_closes_the_lifespan(start_server: StartServer, redis_server: RedisServer) -> None:
    """A worker opens the lifespan when it starts and closes it when it stops."""
    shared = {"JOBS_URL": redis_server.url, "MCP_COMPONENTS": "tests.extended"}
    worker = start_server(command=("-m", "anyreplica", "worker", "tests.extended:create_app"), **shared)
    replica = start_server(command=_RUN, **shared)
    assert _result(replica.url) == ["pool"]
    assert "the pool is open" in worker.output
    worker.stop()
    assert "the pool is closed" in worker.output


def check(**settings: str) -> subprocess.CompletedProcess[str]:
    """Check the server of `tests.extended`, which reads its settings when it is imported."""
    return start("check", "tests.extended:create_app", fresh="tests.extended", **settings)


def test_a_wrong_setting_stops_the_start() -> None:
    """An invalid setting stops the start with one line that names it, and a misspelt setting causes a warning."""
    done = check(GREETING="x" * 21)
    assert done.returncode == 3
    assert done.stderr.startswith("GREETING=xxxxx")
    assert len(done.stderr.splitlines()) == 1
    done = check(MCP_COMPONENTS="tests.extended", GREETINGS="Hi")
    assert "GREETINGS is not a setting and has no effect; did you mean GREETING?" in done.stderr


def test_a_lifespan_that_fails_stops_the_start(tmp_path: Path) -> None:
    """A lifespan that raises an exception stops the start, and the exception's text is printed."""
    body = "async def pool():\n    raise ConnectionError('no database at db:5432')\n    yield\n"
    (tmp_path / "broken_pool.py").write_text(f"from anyreplica import lifespan\n\n\n@lifespan\n{body}")
    done = check(MCP_COMPONENTS="tests.extended,broken_pool", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3, done.stderr
    assert "no database at db:5432" in done.stderr


@pytest.mark.parametrize(
    "body",
    ["def pool():\n    yield\n", "async def pool(size=1):\n    yield\n", "async def pool():\n    return None\n"],
    ids=["not async", "with an argument", "without a yield"],
)
def test_an_invalid_lifespan_stops_the_start(tmp_path: Path, body: str) -> None:
    """An invalid lifespan function stops the start, and the error names its file and line."""
    (tmp_path / "odd_pool.py").write_text(f"from anyreplica import lifespan\n\n\n@lifespan\n{body}")
    done = start("check", MCP_COMPONENTS="odd_pool", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    told = "odd_pool.py:4: TypeError: @lifespan needs an async function without arguments that yields once"
    assert told in done.stderr


def _result(url: str) -> object:
    result = f"{url}/jobs/{httpx.post(f'{url}/jobs', json={'job': 'look'}).json()['id']}/result"
    until(lambda: httpx.get(result).status_code == 200, "the job has a result")
    return httpx.get(result).json()["result"]

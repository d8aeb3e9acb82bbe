"""The command `anyreplica autoscale`, with a real replica and a stand-in for the engine."""

import contextlib
import signal
import threading
from pathlib import Path

import httpx
import pytest

from conftest import StartServer, free_port, until
from tests.autoscale.engine import LABELS, TOKEN, Engine, autoscaling
from tests.calls import legacy
from tests.starts import start


def is_ready(url: str) -> bool:
    """Return whether the autoscaler is ready."""
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{url}/readyz").status_code == 200
    return False


@pytest.mark.slow
def test_a_busy_replica_gets_others(start_server: StartServer, tmp_path: Path) -> None:
    """The command reads a real replica, adds replicas, shows its metrics, and ends when it is told to."""
    settings = {"MCP_COMPONENTS": "tests.packs.waiting", "MAX_IN_FLIGHT": "4", "METRICS_TOKEN": TOKEN}
    server = start_server(**settings)
    with Engine() as engine, autoscaling(engine, tmp_path / "log") as (process, url):
        until(lambda: is_ready(url), lambda: f"the autoscaler is ready; it printed:\n{(tmp_path / 'log').read_text()}")
        calls = [{"name": "wait", "arguments": {"key": key}} for key in "abc"]
        waiting = [threading.Thread(target=legacy, args=(server.url, "tools/call", call)) for call in calls]
        for thread in waiting:
            thread.start()
        until(lambda: "mcp_requests_in_flight 3.0" in metrics(server.url), "three calls wait")
        engine.add("mcp", 1, env={"MCP_PORT": str(server.port)})
        until(lambda: engine.replicas("mcp") == 2, "the service has two replicas")
        until(
            lambda: "1 -> 2 replicas: calls in flight: 125% of the target" in (tmp_path / "log").read_text(), "a line"
        )
        until(lambda: 'mcp_autoscale_changes_total{direction="up",service="stack_mcp"} 1.0' in metrics(url), "a count")
        assert httpx.get(f"{url}/metrics").status_code == 401
        for call in calls:
            legacy(server.url, "tools/call", {**call, "name": "release"})
        for thread in waiting:
            thread.join()
        process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0
    assert engine.refused == []


def metrics(url: str) -> str:
    """Return the metrics of a replica or of the autoscaler."""
    return httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text


def test_it_says_why_no_replica_gives_figures(start_server: StartServer, tmp_path: Path) -> None:
    """With a wrong token, and without an answer, the number stays, and the log says why."""
    log = tmp_path / "log"
    token, gone = start_server(METRICS_TOKEN="another-token").port, free_port()
    with Engine() as engine, autoscaling(engine, log):
        engine.add("token", 1, env={"MCP_PORT": str(token)})
        engine.add("gone", 1, env={"MCP_PORT": str(gone)})
        stays = "no replica gives figures, so the number stays: 127.0.0.1"
        lines = [f"{stays}:{token} refuses the METRICS_TOKEN (status 401)"]
        lines.append(f"{stays}:{gone} gives no metrics: All connection attempts failed")
        until(lambda: all(line in log.read_text() for line in lines), " and ".join(lines))
        assert (engine.replicas("token"), engine.replicas("gone")) == (1, 1)


@pytest.mark.servers
def test_it_says_what_it_does_and_survives_its_engine(tmp_path: Path) -> None:
    """A dry run says so. An engine that does not answer is named in one line, and the command goes on."""
    with Engine() as engine:
        engine.is_away = True
        engine.add("mcp", 40, labels=LABELS)
        with autoscaling(engine, tmp_path / "log", "--dry-run") as (process, url):
            until(lambda: is_ready(url), "the autoscaler is ready")
            said = (tmp_path / "log").read_text
            away = f"Nothing is scaled: {engine.url} refused GET /services with 503: the engine is away"
            until(lambda: away in said(), "the error is logged")
            assert said().startswith(f"Dry run: nothing is changed. Looking at the services of {engine.url} every 5 s")
            engine.is_away = False
            until(lambda: "would change: 40 -> 10 replicas" in said(), "the decision is logged")
            assert engine.replicas("mcp") == 40
            assert process.poll() is None
            assert said().count(away) == 1
        assert "HTTP Request" not in said()


def test_a_wrong_argument_stops_the_start() -> None:
    """One line on stderr names the argument."""
    done = start("autoscale", "--docker", "nowhere")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "--docker: 'nowhere' is not unix:///path, tcp://host:port or http://host:port\n"
    done = start("autoscale", "--every")
    assert done.returncode == 2
    assert "unrecognized arguments: --every" in done.stderr

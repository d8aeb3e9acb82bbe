"""Tests of `WORKERS`: a replica with several processes."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from anyreplica import Settings
from anyreplica.features.metrics.page import as_json, of_all
from anyreplica.shared.peers import peers
from conftest import Server, StartServer, free_port, until
from tests.calls import call, get, modern, text
from tests.processes import children, command_of, runs
from tests.replicas import PACKS
from tests.starts import start

NEEDY = """
from pathlib import Path

from anyreplica import lifespan

@lifespan
async def database():
    if Path("{away}").exists():
        raise OSError("the database is away")
    yield
"""


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica with two processes."""
    with Server(tmp_path_factory.mktemp("processes") / "log", "--workers", "2", DRAIN_SECONDS="0.1") as server:
        until(lambda: "2 processes serve as one replica" in server.output, "both processes are ready")
        yield server


def served_by(url: str) -> set[str]:
    """Return the names of the processes that answer 20 new connections."""
    return {get(f"{url}/version").headers["X-Served-By"] for _ in range(20)}


def samples(url: str, name: str) -> dict[str, float]:
    """Return the values of a metric by process."""
    families = text_string_to_metric_families(get(f"{url}/metrics").text)
    return {each.labels["process"]: each.value for family in families for each in family.samples if each.name == name}


def test_both_processes_answer_on_one_port(replica: Server) -> None:
    """The kernel distributes new connections to both. Each has a name, and counts as a replica."""
    until(lambda: {name[-2:] for name in served_by(replica.url)} == {"-1", "-2"}, "both processes answer")
    assert samples(replica.url, "mcp_replicas") == {"1": 2, "2": 2}


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_the_metrics_of_both_are_one_page(replica: Server, accept: str) -> None:
    """Whoever answers, the page has each metric once, with the samples of both processes."""
    for _ in range(5):
        page = get(f"{replica.url}/metrics", headers={"Accept": accept})
        assert page.headers["Content-Type"].startswith(accept.partition(";")[0])
        helps = [line for line in page.text.splitlines() if line.startswith("# HELP")]
        assert len(helps) == len(set(helps)) > 20
        assert set(re.findall(r'^process_resident_memory_bytes{process="(\d)"}', page.text, re.MULTILINE)) == {"1", "2"}


def test_the_counters_of_both_are_on_the_page(replica: Server) -> None:
    """The sum over the processes is what both have answered."""
    before = sum(samples(replica.url, "mcp_connections_opened_total").values())
    for _ in range(20):
        call(replica.url, "echo", {"message": "hello"})
    name = "mcp_connections_opened_total"
    until(lambda: sum(samples(replica.url, name).values()) >= before + 20, "the page has the calls of both")


def test_a_multi_round_tool_continues_on_the_other_process(start_server: StartServer) -> None:
    """The processes share the keys of request states, although nobody has set them."""
    server = start_server("--workers", "2", MCP_COMPONENTS=PACKS, LOG_LEVEL="WARNING")
    until(lambda: len(samples(server.url, "mcp_replicas")) == 2, "both processes are ready")
    passed: set[tuple[str, str]] = set()

    def one_transfer() -> bool:
        asked = modern(server.url, "tools/call", {"name": "transfer", "arguments": {"amount": 7}})
        params = {
            "name": "transfer",
            "arguments": {"amount": 7},
            "requestState": asked.json()["result"]["requestState"],
        }
        sure = {"sure": {"action": "accept", "content": {"sure": True}}}
        answered = modern(server.url, "tools/call", {**params, "inputResponses": sure})
        assert text(answered.json()["result"]).startswith("accept: ")
        passed.add((asked.headers["X-Served-By"], answered.headers["X-Served-By"]))
        return len(passed) == 4

    until(one_transfer, "each process has continued what each has begun")


def test_a_killed_process_is_replaced(start_server: StartServer) -> None:
    """The other process goes on, and the page of metrics then has the new one."""
    server = start_server("--workers", "2", LOG_LEVEL="WARNING")
    until(lambda: len(samples(server.url, "mcp_replicas")) == 2, "both processes are ready")
    victim = children(server.process.pid)[0]
    os.kill(victim, signal.SIGKILL)
    until(lambda: "ended with exit code -9 (SIGKILL); started a new one" in server.output, "the supervisor sees it")
    until(lambda: "3" in samples(server.url, "mcp_replicas"), "the new process is ready")
    assert len(samples(server.url, "mcp_replicas")) == 2


def test_a_process_that_cannot_start_any_more_stops_no_other(start_server: StartServer, tmp_path: Path) -> None:
    """While its replacement refuses to start, the other one serves, and the supervisor tries again after a pause."""
    (tmp_path / "needy_pack.py").write_text(NEEDY.format(away=tmp_path / "away"))
    server = start_server("--workers", "2", MCP_COMPONENTS="needy_pack", PYTHONPATH=str(tmp_path))
    until(lambda: "2 processes serve as one replica" in server.output, "both processes are ready")
    (tmp_path / "away").touch()
    os.kill(children(server.process.pid)[0], signal.SIGKILL)
    until(lambda: "ended with exit code 3; a new one starts in" in server.output, "the second try has failed")
    assert len(samples(server.url, "mcp_replicas")) == 1
    (tmp_path / "away").unlink()
    until(lambda: len(samples(server.url, "mcp_replicas")) == 2, "both processes are ready again")
    assert server.output.count("OSError: the database is away") == 1, "the reason is printed once"
    assert server.stop() == 0


def test_the_server_may_choose_how_python_starts_processes(start_server: StartServer, tmp_path: Path) -> None:
    """The processes are copies, and multiprocessing has chosen a start method for them. The server may still choose."""
    file = tmp_path / "choosing.py"
    chosen = "import multiprocessing\nmultiprocessing.set_start_method('spawn')\n"
    file.write_text(f"{chosen}from fastmcp import FastMCP\nmcp = FastMCP('choosing')\n")
    server = start_server("run", str(file), "--workers", "2", LOG_LEVEL="WARNING")
    until(lambda: len(samples(server.url, "mcp_replicas")) == 2, "both processes are ready")


def test_a_page_that_ends_too_early_is_left_out() -> None:
    """A process may be killed while it sends its page."""
    registry = CollectorRegistry()
    Gauge("one", "A number.", registry=registry).set(1)
    page = as_json(registry)
    found = generate_latest(of_all("1", registry, {"2": page, "3": page[:-3]})).decode()
    assert [line for line in found.splitlines() if line.startswith("one")] == [
        'one{process="1"} 1.0',
        'one{process="2"} 1.0',
    ]


def test_a_stopped_process_is_missing_on_the_page(start_server: StartServer) -> None:
    """A process that does not answer within two seconds is left out, and the page comes all the same."""
    server = start_server("--workers", "2", LOG_LEVEL="WARNING")
    until(lambda: len(samples(server.url, "mcp_replicas")) == 2, "both processes are ready")
    one = children(server.process.pid)[0]
    os.kill(one, signal.SIGSTOP)
    try:
        until(lambda: _page_of_one(server.url), "the other process answers")
    finally:
        os.kill(one, signal.SIGCONT)


def _page_of_one(url: str) -> bool:
    """Return whether the page has one process. The kernel may give the connection to the stopped process."""
    try:
        return httpx.get(f"{url}/metrics", timeout=5).text.count("\nmcp_replicas{") == 1
    except httpx.TimeoutException:
        return False


def test_one_signal_drains_all_and_a_second_one_stops_them(start_server: StartServer) -> None:
    """SIGTERM makes each process drain. The second one goes to the processes, too."""
    server = start_server("--workers", "2", DRAIN_SECONDS="600")
    until(lambda: len(samples(server.url, "mcp_replicas")) == 2, "both processes are ready")
    server.process.send_signal(signal.SIGTERM)
    until(lambda: server.output.count("SIGTERM received: draining") == 2, "both processes drain")
    assert get(f"{server.url}/readyz").status_code == 503
    assert server.stop() == 0
    assert server.output.count("SIGTERM received again: stopping at once") == 2


def test_no_signal_changes_the_number_of_processes(start_server: StartServer) -> None:
    """SIGTTIN and SIGTTOU would make uvicorn add and remove a process."""
    server = start_server("--workers", "2", LOG_LEVEL="WARNING")
    until(lambda: len(samples(server.url, "mcp_replicas")) == 2, "both processes are ready")
    before = children(server.process.pid)
    for number in (signal.SIGTTIN, signal.SIGTTOU):
        server.process.send_signal(number)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: "started a new one" in server.output, "the supervisor has handled the signals before")
    assert len(children(server.process.pid)) == 2


def test_a_supervisor_with_threads_makes_no_copies_of_itself(start_server: StartServer, tmp_path: Path) -> None:
    """A copy could wait for ever for a lock of a thread that it does not have. Then another process forks them."""
    thread = "threading.Thread(target=time.sleep, args=(1000,), daemon=True)"
    (tmp_path / "sitecustomize.py").write_text(f"import threading, time\n{thread}.start()\n")
    server = start_server("--workers", "2", PYTHONPATH=str(tmp_path), LOG_LEVEL="WARNING")
    until(lambda: len(samples(server.url, "mcp_replicas")) == 2, "both processes are ready")
    assert any("forkserver" in command_of(pid) for pid in children(server.process.pid))
    assert server.stop() == 0


def test_no_process_outlives_a_killed_supervisor(start_server: StartServer) -> None:
    """The processes end with their supervisor. Otherwise they would use the port for ever."""
    server = start_server("--workers", "3", LOG_LEVEL="WARNING")
    until(lambda: len(samples(server.url, "mcp_replicas")) == 3, "all processes are ready")
    processes = children(server.process.pid)
    server.process.send_signal(signal.SIGKILL)
    until(lambda: not any(map(runs, processes)), "all processes have ended")


def test_a_fault_of_all_processes_is_one_line(start_server: StartServer, tmp_path: Path) -> None:
    """A module that cannot be imported stops the start, without restarts."""
    pack = tmp_path / "broken_pack.py"
    pack.write_text("import no_such_module\n")
    settings = {"MCP_COMPONENTS": "broken_pack", "PYTHONPATH": str(tmp_path), "LOG_LEVEL": "WARNING"}
    server = start_server("--workers", "2", ready=False, **settings)
    assert server.process.wait(60) == 3
    (line,) = server.output.splitlines()
    assert line.startswith(f"{pack}:1: ModuleNotFoundError: No module named 'no_such_module'")


@pytest.mark.parametrize(
    ("arguments", "settings", "line"),
    [
        (("--replicas", "2"), {"WORKERS": "2"}, "--replicas and WORKERS=2 exclude each other"),
        ((), {"WORKERS": "2", "MCP_UDS": "/tmp/socket"}, "MCP_UDS=/tmp/socket: only one process can use it"),  # noqa: S108
        ((), {"WORKERS": "0"}, "WORKERS=0: must be greater than or equal to 1"),
        ((), {"WORKERS": "many"}, "WORKERS=many: must be a whole number"),
        (("check",), {"WORKERS": "2", "HANDSHAKE_SESSIONS": "full"}, "REDIS_URL: required by HANDSHAKE_SESSIONS=full"),
    ],
)
def test_what_several_processes_cannot_have_is_refused(
    arguments: tuple[str, ...], settings: dict[str, str], line: str
) -> None:
    """The start is refused with one line that names the variable."""
    done = start(*arguments, MCP_PORT=str(free_port()), **settings)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert done.stderr.startswith(line)


def test_a_secret_cannot_set_the_number(tmp_path: Path) -> None:
    """The command needs the number before it loads the server, so it reads only the environment."""
    (tmp_path / "workers").write_text("2")
    done = start(MCP_PORT=str(free_port()), SECRETS_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (
        3,
        "WORKERS=2: set this variable in the environment; a secret or code cannot set it\n",
    )


def test_each_process_counts_as_a_replica() -> None:
    """Three replicas of two processes are six, and one replica of two processes is not a single one."""
    keys = "k" * 32
    assert Settings(mcp_replicas=3, workers=2, request_state_keys=keys).planned == 6
    assert not Settings(workers=2).is_single
    with pytest.raises(ValueError, match="with WORKERS=2"):
        Settings(workers=2, handshake_sessions="ask")


@pytest.mark.anyio
async def test_an_address_counts_as_all_processes_of_a_replica() -> None:
    """The name `localhost` has one address, and behind it are three processes."""
    known = peers(Settings(workers=3, replicas_dns="localhost"), None, "one")
    async with known.running():
        assert known.count == 3

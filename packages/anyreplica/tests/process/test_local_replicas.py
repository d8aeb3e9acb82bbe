"""Tests of local replicas: processes that share a port. They run without Redis; `test_local_redis.py` tests theirs."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from anyreplica.process.start import EXIT_REFUSED
from anyreplica.process.supervisor import ReplicaProcess
from conftest import Server, StartServer, free_port, until
from tests.calls import call, get, legacy, text
from tests.processes import children, command_of
from tests.starts import start


def served_by(url: str) -> str:
    """Return the name of the replica that answers a new connection."""
    return get(f"{url}/version").headers["X-Served-By"]


def pids(server: Server) -> list[int]:
    """Return the process ids of the replicas, the oldest first."""
    forking = [pid for pid in children(server.process.pid) if "forkserver" in command_of(pid)]
    return [replica for pid in forking for replica in children(pid)]


@pytest.mark.slow
def test_three_names_and_an_even_spread(local_url: str) -> None:
    """The kernel spreads 1500 connections within ±20 %; by chance it fails once in 2 million runs (300: in 25 runs)."""
    connections = 1500
    served = Counter(served_by(local_url) for _ in range(connections))
    assert len(served) == 3
    assert all(re.fullmatch(r".+-[123]", name) for name in served)
    assert all(abs(requests - connections / 3) <= 0.2 * connections / 3 for requests in served.values()), served


def test_the_supervisor_prints_how_to_connect(local_replicas: Server) -> None:
    """The supervisor prints the server's own version, the address, a JSON snippet for clients and the components."""
    output = local_replicas.output
    assert f"  template-mcp 0.1.0: 3 replicas on http://localhost:{local_replicas.port}/mcp " in output
    client = {"type": "http", "url": f"http://localhost:{local_replicas.port}/mcp"}
    assert json.dumps({"mcpServers": {"template-mcp": client}}) in output
    assert re.search(r"tools      .*echo.*server_info", output)


def test_few_lines_come_before_the_address(local_replicas: Server) -> None:
    """Each replica says what it serves, with the counts that clients see, and no line says how a tool is called."""
    before = local_replicas.output.partition("  template-mcp 0.1.0: ")[0]
    told = re.findall(r" - INFO - template-mcp 0\.1\.0 \(anyreplica \S+\), replica \S+: (.*)\n", before)
    results = {kind: legacy(local_replicas.url, f"{kind}/list").json()["result"][kind] for kind in ("tools", "prompts")}
    tools, prompts = (len(results[kind]) for kind in ("tools", "prompts"))
    assert told == [f"tools {tools}, resources 2, prompts {prompts}, jobs 0"] * 3
    assert "server/tools" not in before
    assert "Path of" not in before
    lines = before.splitlines()
    assert lines[0] == "Starting 3 replicas …"
    # For each replica: what it lacks without Redis (two lines), what it serves, and that it is ready.
    assert len(lines) <= 1 + 3 * 4 + 1, before


@pytest.mark.servers
def test_a_signal_does_not_disturb_an_end() -> None:
    """A replica that has refused to start keeps its exit code when the supervisor's SIGTERM comes during its end."""
    refuse = f"serve(lambda: sys.exit({EXIT_REFUSED}))"
    stop = "os.kill(os.getpid(), signal.SIGTERM)"
    code = f"import os, signal, sys\nfrom anyreplica.process.forking import serve\ntry:\n {refuse}\nfinally:\n {stop}"
    ended = subprocess.run((sys.executable, "-c", code), capture_output=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (EXIT_REFUSED, b"")


def test_a_replica_that_has_just_ended_is_no_error() -> None:
    """The supervisor stops a replica that has ended, but whose exit code it does not know yet."""
    replica = ReplicaProcess.__new__(ReplicaProcess)
    replica.process = SimpleNamespace(exitcode=None, pid=2**22 + 1)  # type: ignore[assignment]  # larger than any pid
    replica.terminate()


@pytest.mark.parametrize("arguments", [("--replicas", "2", "--no-redis"), ("--workers", "2")])
def test_processes_share_the_memory_of_the_imports(
    start_server: StartServer, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Before a process imports the server, the objects of all other modules are hidden from its garbage collector."""
    pack = """
import gc
from fastmcp.tools import tool

HIDDEN, OTHERS = gc.get_freeze_count(), len(gc.get_objects())

@tool
def hidden() -> bool:
    return HIDDEN > 10 * OTHERS
"""
    (tmp_path / "sharing_pack.py").write_text(pack)
    server = start_server(*arguments, MCP_COMPONENTS="sharing_pack", PYTHONPATH=str(tmp_path))
    assert text(call(server.url, "hidden", {})) == "true"


def test_the_option_port_comes_before_the_variable(start_server: StartServer) -> None:
    """With `--port`, one replica and several listen there, whatever MCP_PORT says."""
    taken = free_port()
    for arguments in ((), ("--replicas", "2", "--no-redis")):
        port = free_port()
        server = start_server("--port", str(port), *arguments, ready=False, MCP_PORT=str(taken))
        server.url = f"http://127.0.0.1:{port}"
        server.wait_ready()
        assert text(call(server.url, "echo", {"message": "here"})) == "here"
        with pytest.raises(httpx.ConnectError):
            get(f"http://127.0.0.1:{taken}/healthz")


def test_a_killed_replica_is_replaced(start_server: StartServer) -> None:
    """When one of three replicas is killed under load, only its calls in flight fail, and a new replica replaces it."""
    server = start_server("--replicas", "3", "--no-redis")
    until(lambda: "Ctrl-C" in server.output, "all replicas are ready")
    stop = threading.Event()
    ends: list[str] = []  # of the calls: an empty text, or the error
    failures: Counter[int] = Counter()  # by client

    def caller(number: int) -> None:
        for index in count():
            if stop.is_set():
                return
            message = f"{number} {index}"
            try:
                assert text(call(server.url, "echo", {"message": message})) == message
                ends.append("")
            except httpx.HTTPError as error:
                ends.append(repr(error))
                failures[number] += 1

    with ThreadPoolExecutor(8) as threads:
        callers = [threads.submit(caller, number) for number in range(8)]
        try:
            until(lambda: ends.count("") > 100, "the replicas have answered 100 calls")
            victim, before = pids(server)[0], ends.count("")
            os.kill(victim, signal.SIGKILL)
            until(lambda: len(pids(server)) == 3 and victim not in pids(server), "a new process replaces the replica")
            until(lambda: ends.count("") > before + 200, "the replicas have answered 200 calls after the kill")
        finally:
            stop.set()
    assert not any(each.exception() for each in callers)
    # The kernel closes the files of a killed process one after the other, the listening socket among the last ones. So
    # a client whose connection is closed first can reach the dying replica once more, but not a third time.
    assert max(failures.values(), default=0) <= 2, [failures, ends]
    assert not any(ends[-100:])
    until(lambda: served_by(server.url).endswith("-4"), "the new replica answers")
    assert "ended with exit code -9 (SIGKILL); started a new one" in server.output


def test_ctrl_c_during_the_start_prints_no_traceback(start_server: StartServer) -> None:
    """A Ctrl-C while the replicas import their modules ends them without a traceback."""
    server = start_server("--replicas", "2", "--no-redis", ready=False)
    until(lambda: len(pids(server)) == 2, "the replicas have begun to start")
    os.killpg(server.process.pid, signal.SIGINT)
    assert server.process.wait(40) == 0
    assert "Traceback" not in server.output


def test_a_restart_does_not_wait_for_old_connections(start_server: StartServer) -> None:
    """A server can restart at once, although the kernel keeps its closed connections for a minute."""
    server = start_server("--replicas", "1", "--no-redis")
    with httpx.Client(base_url=server.url, verify=False) as client:
        assert client.get("/healthz").status_code == 200
        server.stop()
    start_server("--replicas", "1", "--no-redis", MCP_PORT=str(server.port))


@pytest.mark.parametrize("arguments", [("--replicas", "3"), ()])
def test_a_taken_port_is_one_clear_line(local_replicas: Server, arguments: tuple[str, ...]) -> None:
    """A port in use stops the start with one line. Otherwise two servers would share its connections."""
    done = start(*arguments, MCP_PORT=str(local_replicas.port))
    told = "Address already in use; choose another port: --port 8151, or with make: PORT=8151 make up.\n"
    assert (done.returncode, done.stderr) == (3, f"Cannot listen on 127.0.0.1:{local_replicas.port}: {told}")


def test_a_broken_module_stops_the_start_of_all_replicas(tmp_path: Path) -> None:
    """A module that cannot be imported stops the start with one line, without restarts."""
    pack = tmp_path / "broken_pack.py"
    pack.write_text("import no_such_module\n")
    settings = {"MCP_PORT": str(free_port()), "MCP_COMPONENTS": "broken_pack", "PYTHONPATH": str(tmp_path)}
    done = start("--replicas", "2", **settings)
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{pack}:1: ModuleNotFoundError: No module named 'no_such_module'")


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("REDIS_URL", "nowhere", "REDIS_URL: not a Redis URL; "),
        ("API_KEYS_FILE", "/no/such/file", "API_KEYS_FILE: /no/such/file cannot be read: "),
        ("AUDIT_LOG", "/no/such/folder/file", "AUDIT_LOG: /no/such/folder/file cannot be opened: "),
    ],
)
def test_a_wrong_file_or_url_starts_no_replica(name: str, value: str, line: str) -> None:
    """The command checks files and URLs before it starts processes, so a wrong one is one line."""
    done = start("--replicas", "2", AUTH_ENABLED="true", AUTH_TOKEN="t", MCP_PORT=str(free_port()), **{name: value})
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert done.stderr.startswith(line)


def test_a_fault_of_all_replicas_is_one_line(start_server: StartServer, tmp_path: Path) -> None:
    """A lifespan that fails in each replica stops the start with one line and no warning of the supervisor."""
    pack = tmp_path / "failing_pack.py"
    closed = "@lifespan\nasync def closed():\n    raise OSError('closed')\n    yield\n"
    pack.write_text(f"from anyreplica import lifespan\n\n{closed}")
    settings = {"MCP_COMPONENTS": "failing_pack", "PYTHONPATH": str(tmp_path), "LOG_LEVEL": "WARNING"}
    server = start_server("--replicas", "3", "--no-redis", ready=False, **settings)
    assert server.process.wait(60) == 3
    failed = f"Start failed: OSError: closed ({pack}:5; LOG_LEVEL=DEBUG shows the traceback)"
    assert server.output == f"Starting 3 replicas …\n{failed}\n"


def test_the_address_is_printed_also_after_a_failed_start(start_server: StartServer, tmp_path: Path) -> None:
    """If a process ends at its start, another one replaces it. When all replicas are ready, the address is printed."""
    pack, once = tmp_path / "once_failing_pack.py", tmp_path / "once"
    pack.write_text(
        f"""
import os
from anyreplica import lifespan

@lifespan
async def opened():
    try:
        open({str(once)!r}, "x")
    except FileExistsError:
        yield
    else:
        os._exit(1)
"""
    )
    settings = {"MCP_COMPONENTS": "once_failing_pack", "PYTHONPATH": str(tmp_path)}
    server = start_server("--replicas", "2", "--no-redis", ready=False, **settings)
    until(lambda: "Ctrl-C stops the replicas" in server.output, "the address is printed", 120)
    assert "Not every replica is ready yet: one has ended" in server.output
    assert "ended with exit code 1; started a new one" in server.output
    assert get(f"{server.url}/readyz").status_code == 200

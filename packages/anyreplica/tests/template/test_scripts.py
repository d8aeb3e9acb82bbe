"""Tests of the two scripts, as a user runs them."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread

import pytest

from conftest import StartServer, environment, free_port, run, until

script = partial(run, sys.executable)


@pytest.fixture
def patient_server() -> Iterator[str]:
    """A server that answers echo calls only when twenty of them are waiting at the same time."""
    barrier = Barrier(20)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer(b"")

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            barrier.wait(10)
            text = message["params"]["arguments"]["message"]
            result = {"content": [{"type": "text", "text": text}], "isError": False}
            self.answer(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Served-By", "patient")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    class Backlog(ThreadingHTTPServer):
        request_queue_size = 128  # with the default of 5, the kernel could drop some of twenty connections

    server = Backlog(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/mcp"
    server.shutdown()
    server.server_close()


def test_the_load_test_passes_on_three_replicas(local_url: str, tmp_path: Path) -> None:
    """The load test passes for three replicas, with all sections, exit code 0, and the same figures as JSON."""
    file = tmp_path / "load.json"
    done = script("test_swarm_load.py", "--url", f"{local_url}/mcp", "--requests", "300", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    for section in ("SUMMARY", "RESPONSE TIMES", "REPLICA DISTRIBUTION", "VERDICT", "✓ PASSED"):
        assert section in done.stdout
    assert "\x1b[" not in done.stdout
    figures = json.loads(file.read_text())
    assert (figures["requests"], figures["succeeded"], figures["passed"]) == (300, 300, True)
    assert len(figures["replicas"]) == 3
    assert sum(replica["requests"] for replica in figures["replicas"]) == 300


def test_a_large_run_in_two_processes(local_url: str, tmp_path: Path) -> None:
    """A run in two processes with more samples than a pipe holds is complete."""
    files = {kind: tmp_path / f"load.{kind}" for kind in ("json", "csv", "html")}
    written = [argument for kind, file in files.items() for argument in (f"--{kind}", str(file))]
    load = ("--requests", "10001", "--processes", "2", "--protocol", "mixed", "--connections", "recycle:100")
    done = script("test_swarm_load.py", "--url", f"{local_url}/mcp", *load, *written)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(files["json"].read_text())
    assert (figures["succeeded"], figures["generator"]["processes"]) == (10_001, 2)
    assert 100 <= figures["connections"] <= 130
    assert len(files["csv"].read_text().splitlines()) == 10_002
    assert "✓ Passed" in files["html"].read_text()
    again = script("test_swarm_load.py", "--url", f"{local_url}/mcp", "--compare", str(files["json"]))
    assert "COMPARISON" in again.stdout


@pytest.mark.parametrize(("threshold", "code"), [("failed==0", 0), ("p50<0.001ms", 1)])
def test_a_threshold_decides_the_exit_code(local_url: str, threshold: str, code: int) -> None:
    """A threshold decides the exit code, and a broken one is printed with the actual value."""
    done = script("test_swarm_load.py", "--url", f"{local_url}/mcp", "--threshold", threshold)
    assert done.returncode == code
    assert ("✗ p50<0.001ms: p50 is " in done.stdout) == bool(code)


def test_the_knee_is_searched(local_url: str) -> None:
    """`--find-max` searches for the highest rate that keeps the threshold, and reports if no rate keeps it.

    No rate can keep this threshold, because no median is below a microsecond.
    """
    search = ("--find-max", "--rate", "2", "--duration", "500ms")
    done = script("test_swarm_load.py", "--url", f"{local_url}/mcp", *search, "--threshold", "p50<0.001ms")
    assert "Not found: a threshold broke at every rate." in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("what", [("--sdk",), ("--session",), ("--method", "tools/list"), ("--tool", "server_info")])
def test_other_things_are_called(local_url: str, what: tuple[str, ...]) -> None:
    """The load test can use the SDK's client, sessions, another method or another tool, in both protocol families."""
    done = script("test_swarm_load.py", "--url", f"{local_url}/mcp", "--requests", "40", "--protocol", "mixed", *what)
    assert done.returncode in (0, 1), done.stdout + done.stderr  # fewer connections may reach fewer replicas
    assert "(100.0%)" in done.stdout


def test_ctrl_c_prints_the_report_of_what_ran(local_url: str) -> None:
    """After Ctrl-C, the load test prints a report of the finished requests and exits with 130."""
    load = ("test_swarm_load.py", "--url", f"{local_url}/mcp", "--rate", "100", "--duration", "60s")
    process = subprocess.Popen([sys.executable, *load], stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout
    begun = [process.stdout.readline(), process.stdout.readline()]
    assert "5 s" in begun[1]
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait(20) == 130
    process.stdout.close()
    assert "Ctrl-C: the report shows the requests until then." in rest
    assert "successful    " in rest


def test_a_load_does_not_outlive_its_script(local_url: str) -> None:
    """When the load test is killed, its sending processes end, too."""
    command = [
        sys.executable,
        "test_swarm_load.py",
        "--url",
        f"{local_url}/mcp",
        "--duration",
        "10m",
        "--processes",
        "2",
    ]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, start_new_session=True) as process:
        until(lambda: len(_sending(process.pid)) == 2, "two sending processes run")
        sending = _sending(process.pid)
        process.kill()
        process.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in sending), "the sending processes have ended")


def _sending(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]


def test_the_load_test_says_when_a_replica_is_missing(local_url: str) -> None:
    """A missing replica causes exit code 1 and is named in the verdict."""
    done = script("test_swarm_load.py", "--url", f"{local_url}/mcp", "--expect-replicas", "4")
    assert done.returncode == 1
    assert "✗ FAILED: 3 of 4 expected replicas took part." in done.stdout


@pytest.mark.servers
def test_twenty_calls_are_in_flight(patient_server: str) -> None:
    """With `--concurrent 20`, twenty calls are in flight at the same time.

    The server would never answer fewer calls.
    """
    done = script(
        "test_swarm_load.py",
        "--url",
        patient_server,
        "--requests",
        "100",
        "--concurrent",
        "20",
        "--expect-replicas",
        "1",
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.servers
@pytest.mark.parametrize("name", ["test_swarm_load.py", "test_mcp_client.py"])
def test_no_server_is_one_sentence(name: str) -> None:
    """A missing server causes exit code 2 and one sentence with a hint."""
    done = script(name, "--url", f"http://127.0.0.1:{free_port()}/mcp")
    assert done.returncode == 2
    assert "make up" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.servers
@pytest.mark.parametrize("name", ["test_swarm_load.py", "test_mcp_client.py"])
def test_help(name: str) -> None:
    """The help explains the exit codes."""
    done = script(name, "--help")
    assert done.returncode == 0
    assert "exit codes:" in done.stdout


@pytest.mark.servers
@pytest.mark.parametrize("arguments", [["--requests", "0"], ["--concurrent", "x"], ["--requests", "-3"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    """The load test refuses a wrong argument and names it."""
    done = script("test_swarm_load.py", *arguments)
    assert done.returncode == 2
    assert arguments[0] in done.stderr


def test_the_client_script_fails_on_a_server_without_the_tools(start_server: StartServer) -> None:
    """The client script fails with exit code 1 and names the missing tools.

    Steps that need no tools still pass.
    """
    server = start_server(AUTO_DISCOVER="false")
    done = script("test_mcp_client.py", "--url", f"{server.url}/mcp")
    assert done.returncode == 1
    assert "✗ tools: missing tools: add, echo, server_info" in done.stdout
    assert "✓ unknown tool" in done.stdout


@pytest.mark.parametrize("family", ["auto", "legacy", "modern"])
def test_the_client_script(local_url: str, family: str) -> None:
    """The client script passes every step."""
    done = script("test_mcp_client.py", "--url", f"{local_url}/mcp", "--protocol", family, "--rapid", "10")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ echo: hällo 🌍 hällo 🌍  [" in done.stdout
    assert "✓ rapid: 10 of 10 clients served" in done.stdout

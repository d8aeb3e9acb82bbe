"""Tests of the two scripts, as a user runs them."""

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from conftest import StartServer, environment, free_port, run, until
from tests.processes import children, command_of, runs

script = partial(run, sys.executable)


def test_the_load_test_passes_on_three_replicas(local_url: str, tmp_path: Path) -> None:
    """The load test passes for three replicas, with all sections, exit code 0, and the same figures as JSON."""
    file = tmp_path / "load.json"
    load = ("--requests", "300", "--threshold", "failed==0", "--json", str(file))
    done = script("test_swarm_load.py", "--url", f"{local_url}/mcp", *load)
    assert done.returncode == 0, done.stdout + done.stderr
    for section in ("SUMMARY", "RESPONSE TIMES", "REPLICA DISTRIBUTION", "VERDICT", "✓ PASSED"):
        assert section in done.stdout
    assert "\x1b[" not in done.stdout
    figures = json.loads(file.read_text())
    assert (figures["requests"], figures["succeeded"], figures["passed"]) == (300, 300, True)
    assert len(figures["replicas"]) == 3
    assert sum(replica["requests"] for replica in figures["replicas"]) == 300


@pytest.mark.slow
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


# No median is below a microsecond, so that threshold breaks at every rate.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--threshold p50<0.001ms", "✗ p50<0.001ms: p50 is "),
        ("--expect-replicas 4", "✗ FAILED: 3 of 4 expected replicas took part."),
        (
            "--find-max --rate 2 --duration 500ms --threshold p50<0.001ms",
            "Not found: a threshold broke at every rate.",
        ),
    ],
    ids=["a threshold", "a missing replica", "no rate"],
)
def test_a_failed_run_has_exit_code_1(local_url: str, options: str, said: str) -> None:
    """A broken threshold, a missing replica, and no rate that `--find-max` finds, are printed, with exit code 1."""
    done = script("test_swarm_load.py", "--url", f"{local_url}/mcp", *options.split())
    assert done.returncode == 1
    assert said in done.stdout


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_load_does_not_outlive_its_script(local_url: str) -> None:
    """When the load test is killed, its sending processes end, too."""
    load = ("test_swarm_load.py", "--url", f"{local_url}/mcp", "--duration", "10m", "--processes", "2")
    command = [sys.executable, *load]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, start_new_session=True) as process:
        until(lambda: len(_sending(process.pid)) == 2, "two sending processes run")
        sending = _sending(process.pid)
        process.kill()
        process.wait()
        until(lambda: not any(map(runs, sending)), "the sending processes have ended")


def _sending(pid: int) -> list[int]:
    return [child for child in children(pid) if "spawn_main" in command_of(child)]


@pytest.mark.servers
@pytest.mark.parametrize("name", ["test_swarm_load.py", "test_mcp_client.py"])
def test_no_server_is_one_sentence(name: str) -> None:
    """A missing server causes exit code 2 and one sentence with a hint. The help explains the exit codes."""
    done = script(name, "--url", f"http://127.0.0.1:{free_port()}/mcp")
    assert done.returncode == 2
    assert "make up" in done.stderr
    assert "Traceback" not in done.stderr
    told = script(name, "--help")
    assert told.returncode == 0
    assert "exit codes:" in told.stdout


def test_the_client_script_fails_on_a_server_without_the_tools(start_server: StartServer) -> None:
    """The client script names the missing tools, passes the other steps, and fails with exit code 1."""
    server = start_server(AUTO_DISCOVER="false")
    done = script("test_mcp_client.py", "--url", f"{server.url}/mcp")
    assert done.returncode == 1
    assert "✗ tools: missing tools: add, echo, server_info" in done.stdout
    assert "✓ unknown tool" in done.stdout


def test_the_load_test_says_how_to_choose_a_tool(start_server: StartServer) -> None:
    """Against a server without the tool `echo`, the load test says which options choose another tool."""
    server = start_server(AUTO_DISCOVER="false")
    load = ("test_swarm_load.py", "--url", f"{server.url}/mcp", "--requests", "2")
    done = script(*load)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "The server has no tool echo. Choose one of its tools, for example:\n  --tool search --args '" in done.stdout
    done = script(*load, "--tool", "other")
    assert done.returncode == 1
    assert "The server has no tool echo" not in done.stdout, "the caller has chosen a tool"


@pytest.mark.parametrize(
    "family", ["auto", *(pytest.param(each, marks=pytest.mark.slow) for each in ("legacy", "modern"))]
)
def test_the_client_script(local_url: str, family: str) -> None:
    """The client script passes every step."""
    done = script("test_mcp_client.py", "--url", f"{local_url}/mcp", "--protocol", family, "--rapid", "10")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✓ echo: hällo 🌍 hällo 🌍  [" in done.stdout
    assert "✓ rapid: 10 of 10 clients served" in done.stdout

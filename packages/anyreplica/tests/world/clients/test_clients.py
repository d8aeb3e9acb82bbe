"""Agent frameworks call three replicas: lists, calls, errors, progress, questions, keys, and killed replicas."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from conftest import environment, free_port, until
from tests.processes import descendants, open_files, runs
from tests.world.clients.frameworks import FRAMEWORKS, NODE, Framework
from tests.world.environments import node_with, python_with
from tests.world.processes import Program

HERE = Path(__file__).parent
KEY = "the-key-of-all-clients-of-this-test-0000"
AFTER_KILL = "call after a kill"
LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""
SECONDS = 300
"""Maximum time of a script, in seconds. On a busy machine, the imports of some frameworks take a minute."""


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Three replicas with sessions, which need a key."""
    folder, port = tmp_path_factory.mktemp("replicas"), free_port()
    command: list[str | Path] = [sys.executable, "-m", "anyreplica", "run", HERE / "served.py", "--replicas", "3"]
    settings = {"MCP_PORT": str(port), "HANDSHAKE_SESSIONS": "full", "AUTH_ENABLED": "true", "AUTH_TOKEN": KEY}
    with Program(command, folder, folder / "log", port, **settings) as program:
        until(lambda: "Ctrl-C stops the replicas" in program.output, "all replicas are ready")
        yield program


def serving(replicas: Program) -> list[int]:
    """Return the process ids of the replicas, which are the processes that listen."""
    port = f":{int(replicas.url.rpartition(':')[2]):04X}"
    files = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    rows = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()]
    listening = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(port) and row[3] == LISTENS}
    return [pid for pid in descendants(replicas.process.pid) if runs(pid) and listening.intersection(open_files(pid))]


def kill(replica: int, replicas: Program) -> None:
    """Kill a replica while the two others serve."""
    until(lambda: len(serving(replicas)) == 3, "three replicas serve")
    os.kill(replica, signal.SIGKILL)
    # Its parent has waited for it, so all its threads have ended and all its connections are closed.
    until(lambda: not Path(f"/proc/{replica}").exists(), "it has ended")


def command_for(framework: Framework) -> list[Path]:
    """Return the program and the script, after the installation of the framework."""
    if framework.requirements[0] == NODE:
        folder = node_with(HERE / "node")
        return [folder / "node_modules" / "node" / "bin" / "node", folder / f"{framework.script}.mjs"]
    return [python_with(*framework.requirements), HERE / "python" / f"{framework.script}.py"]


def steps(framework: Framework, replicas: Program, folder: Path) -> dict[str, str]:
    """Run the script of a framework, and kill a replica whenever it says so. Return the result of each step."""
    until(lambda: len(serving(replicas)) == 3, "three replicas serve")
    done, living = dict[str, str](), serving(replicas)
    variables = {**environment(), "PYTHONPATH": "", "CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
    with (
        (folder / "errors").open("w") as errors,
        subprocess.Popen(
            [*command_for(framework), f"{replicas.url}/mcp", KEY],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        timer = Timer(SECONDS, process.kill)
        timer.start()
        try:
            for line in process.stdout:
                if not line.startswith('{"step"'):  # the framework's own words
                    continue
                step = json.loads(line)
                if step["step"] == "kill":
                    kill(living.pop(), replicas)
                    process.stdin.write("\n")
                    process.stdin.flush()
                else:
                    again = f", {3 - len(living)}" if step["step"] == AFTER_KILL else ""
                    done[step["step"] + again] = step["result"]
        finally:
            timer.cancel()
            process.kill()
    print((folder / "errors").read_text()[-3000:])
    return done


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.script)
def test_a_framework_gets_what_the_server_offers(framework: Framework, replicas: Program, tmp_path: Path) -> None:
    """Each step of a framework has the result that it has with a single server that never ends."""
    done = steps(framework, replicas, tmp_path)
    print(json.dumps(done, indent=1))
    assert done.pop("list", None) == "add count greet", done
    assert "5" in done.pop("call")
    assert framework.wrong in done.pop("wrong arguments")
    if framework.progress:
        assert "counted to 3" in done.pop("count")
        assert done.pop("progress") == "1/3 2/3 3/3"
    if framework.asked:
        assert "Hello, Ada!" in done.pop("being asked")
    for step in ("without a key", "with a wrong key"):
        refusal = done.pop(step)
        assert refusal.startswith("error")
        assert any(each in refusal for each in framework.refused), refusal
    for number in (1, 2, 3):
        result = done.pop(f"{AFTER_KILL}, {number}")
        assert str(number) in result
        assert "error:" not in result
    assert not done

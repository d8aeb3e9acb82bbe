"""Tests of a start that fails: `check` finds the same error, and the error is one line."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.types import Message

from anyreplica.process.start import StartReport, refusing
from anyreplica.settings.errors import StartupError
from conftest import StartServer, free_port, until
from tests.calls import call
from tests.starts import start

WAYS = [["check"], []]
TASK = """from fastmcp.tools import tool

@tool(task=True)
async def count_slowly() -> int:
    \"\"\"Count.\"\"\"
    return 1
"""
FAILING = """from fastmcp.tools import Tool

class Closed(Tool):
    def __getattribute__(self, name):
        if name == "auth":
            raise LookupError("the vault\\nis closed")
        return super().__getattribute__(name)

closed = Closed(name="closed", description="Never starts.", parameters={"type": "object", "properties": {}})
"""


def fail(error: BaseException) -> None:
    """Raise the error."""
    raise error


def written(folder: Path, source: str) -> dict[str, str]:
    """Write a module and return the settings of a server that serves it on a free port."""
    (folder / "failing_pack.py").write_text(source)
    return {"MCP_COMPONENTS": "server,failing_pack", "PYTHONPATH": str(folder), "MCP_PORT": str(free_port())}


@pytest.mark.parametrize("arguments", WAYS)
def test_a_task_without_a_shared_queue_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    """With several replicas, a tool with task=True stops the start if the replicas share no queue."""
    several = {"MCP_REPLICAS": "3", "REQUEST_STATE_KEYS": "k" * 32}
    done = start(*arguments, **written(tmp_path, TASK), **several)
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if " - INFO - " not in line and " - WARNING - " not in line]
    assert line == (
        "JOBS_URL=memory://: the tasks of count_slowly need a queue that all replicas share; set JOBS_URL=redis://…"
    )


@pytest.mark.parametrize("arguments", WAYS)
def test_a_task_without_the_package_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    """Without the package fastmcp-tasks, a tool with task=True stops the start. The error suggests a job, too."""
    (tmp_path / "fastmcp_tasks.py").write_text("raise ImportError\n")
    done = start(*arguments, fresh="fastmcp_tasks", **written(tmp_path, TASK))
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if " - INFO - " not in line]
    assert line == (
        "tool 'count_slowly': task=True needs the package fastmcp-tasks; run pip install --no-deps fastmcp-tasks, "
        "or make the tool a job (`from anyreplica import job`, then `@job`)"
    )


@pytest.mark.parametrize("arguments", WAYS)
def test_an_exception_during_the_start_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    """An exception during the app's start, after discovery, is printed in one line."""
    done = start(*arguments, **written(tmp_path, FAILING))
    assert done.returncode == 3
    assert "fine" not in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if " - INFO - " not in line]
    where = f"{tmp_path}/failing_pack.py:6"
    assert line == f"Start failed: LookupError: the vault is closed ({where}; LOG_LEVEL=DEBUG shows the traceback)"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError(), "KeyError"),
        (SystemExit(7), "SystemExit: 7"),
        (OSError("red\n\x1b[31m"), r"'OSError: red \x1b[31m'"),
        (ExceptionGroup("two", [ExceptionGroup("one", [OSError("first")]), OSError("second")]), "OSError: first"),
    ],
)
def test_the_line_names_type_and_text(capsys: pytest.CaptureFixture[str], error: BaseException, told: str) -> None:
    """The line contains the type and text of the first cause, without control characters."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        fail(error)
        yield

    answers: list[Message] = []

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        answers.append(message)

    asyncio.run(StartReport(Starlette(lifespan=lifespan))({"type": "lifespan"}, receive, send))
    logging.getLogger("uvicorn.error").disabled = False
    assert answers == [{"type": "lifespan.startup.failed", "message": ""}]
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Start failed: ")]
    assert line.startswith(f"Start failed: {told} ({__file__}:")


@pytest.mark.parametrize("arguments", WAYS)
def test_the_debug_level_shows_the_traceback(tmp_path: Path, arguments: list[str]) -> None:
    """With LOG_LEVEL=DEBUG the traceback precedes the line."""
    done = start(*arguments, LOG_LEVEL="DEBUG", **written(tmp_path, FAILING))
    assert done.returncode == 3
    traceback, _, line = done.stderr.rstrip("\n").rpartition("\n")
    assert line == f"Start failed: LookupError: the vault is closed ({tmp_path}/failing_pack.py:6)"
    assert "Traceback (most recent call last)" in traceback
    assert traceback.endswith("LookupError: the vault\nis closed")


def test_a_check_needs_nothing_that_a_start_does_not() -> None:
    """`check` succeeds without Redis, the queue, the trace collector and the token issuer, like a start."""
    nowhere = f"127.0.0.1:{free_port()}"
    done = start(
        "check",
        REDIS_URL=f"redis://{nowhere}/0",
        JOBS_URL=f"redis://{nowhere}/0",
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{nowhere}",
        AUTH_ENABLED="true",
        AUTH_JWT_ISSUER="https://issuer.example.com",
        AUTH_JWT_AUDIENCE="mcp",
        AUTH_JWT_JWKS=f"http://{nowhere}/jwks",
        PUBLIC_URL="https://mcp.example.com",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("template-mcp 0.2.0: settings and components are valid.\n")
    assert "Redis can't be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_check_disturbs_no_replica(tmp_path: Path, start_server: StartServer) -> None:
    """`check` does not affect a running replica with the same settings, port and audit log."""
    file = tmp_path / "audit.jsonl"
    server = start_server(AUDIT_LOG=str(file))
    until(lambda: '"begun"' in file.read_text(), "the audit log contains its first entry")
    before = file.read_text()
    done = start("check", AUDIT_LOG=str(file), MCP_PORT=str(server.port))
    assert (done.returncode, done.stderr) == (0, "")
    assert file.read_text() == before
    call(server.url, "echo", {"message": "here"})
    server.stop()
    assert '"ended"' in file.read_text()


def test_a_check_of_a_worker_runs_no_job() -> None:
    """`check --worker` checks the settings and jobs without the queue and runs no job."""
    # What only a replica uses may be wrong for a worker.
    of_replica = {"AUTH_ENABLED": "true", "API_KEYS_FILE": "/nowhere/keys", "AUDIT_LOG": "/nowhere/audit"}
    done = start("check", "--worker", JOBS_URL=f"redis://127.0.0.1:{free_port()}/0", **of_replica)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "template-mcp 0.2.0: settings and jobs are valid.\njobs       export_data, generate_report\n"
    )
    assert start("check", "--worker").returncode == 3


def test_a_startup_error_is_not_changed() -> None:
    """`refusing` does not change the text of a `StartupError`, which is already written for operators."""
    with pytest.raises(StartupError, match=r"^MCP_PORT: no$"), refusing():
        raise StartupError("MCP_PORT: no")

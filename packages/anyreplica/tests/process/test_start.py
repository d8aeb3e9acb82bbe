"""Tests of a start that fails: `check` finds the same error, and the error is one line."""

import asyncio
import logging
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from starlette.applications import Starlette

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


def written(folder: Path, source: str) -> dict[str, str]:
    """Write a module and return the settings of a server that serves it on a free port."""
    (folder / "failing_pack.py").write_text(source)
    return {"MCP_COMPONENTS": "server,failing_pack", "PYTHONPATH": str(folder), "MCP_PORT": str(free_port())}


def line_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the only line of a refused start that is neither information nor a warning."""
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if " - INFO - " not in line and " - WARNING - " not in line]
    return line


@pytest.mark.parametrize("arguments", WAYS)
def test_a_task_that_cannot_run_is_refused(tmp_path: Path, arguments: list[str]) -> None:
    """A tool with task=True needs a queue that all replicas share, and the package fastmcp-tasks."""
    several = {"MCP_REPLICAS": "3", "REQUEST_STATE_KEYS": "k" * 32}
    assert line_of(start(*arguments, **written(tmp_path, TASK), **several)) == (
        "JOBS_URL=memory://: the tasks of count_slowly need a queue that all replicas share; set JOBS_URL=redis://…"
    )
    (tmp_path / "fastmcp_tasks.py").write_text("raise ImportError\n")
    assert line_of(start(*arguments, fresh="fastmcp_tasks", **written(tmp_path, TASK))) == (
        "tool 'count_slowly': task=True needs the package fastmcp-tasks; run pip install --no-deps fastmcp-tasks, "
        "or make the tool a job (`from anyreplica import job`, then `@job`)"
    )


@pytest.mark.parametrize("arguments", WAYS)
def test_an_exception_during_the_start_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    """An exception during the app's start, after discovery, is one line. LOG_LEVEL=DEBUG shows its traceback before."""
    done = start(*arguments, **written(tmp_path, FAILING))
    assert "fine" not in done.stdout
    where = f"({tmp_path}/failing_pack.py:6; LOG_LEVEL=DEBUG shows the traceback)"
    assert line_of(done) == f"Start failed: LookupError: the vault is closed {where}"
    done = start(*arguments, LOG_LEVEL="DEBUG", **written(tmp_path, FAILING))
    assert done.returncode == 3
    traceback, _, line = done.stderr.rstrip("\n").rpartition("\n")
    assert line == f"Start failed: LookupError: the vault is closed ({tmp_path}/failing_pack.py:6)"
    assert "Traceback (most recent call last)" in traceback
    assert traceback.endswith("LookupError: the vault\nis closed")


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
        if told:
            raise error
        yield

    asked: Any = AsyncMock(return_value={"type": "lifespan.startup"})
    sent: Any = AsyncMock()
    asyncio.run(StartReport(Starlette(lifespan=lifespan))({"type": "lifespan"}, asked, sent))
    logging.getLogger("uvicorn.error").disabled = False
    sent.assert_awaited_once_with({"type": "lifespan.startup.failed", "message": ""})
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Start failed: ")]
    assert line.startswith(f"Start failed: {told} ({__file__}:")


def test_a_check_needs_nothing_that_a_start_does_not() -> None:
    """`check` succeeds without Redis, the queue, the trace collector and the token issuer, like a start."""
    nowhere = f"127.0.0.1:{free_port()}"
    away = dict.fromkeys(("REDIS_URL", "JOBS_URL"), f"redis://{nowhere}/0")
    away |= {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{nowhere}", "AUTH_JWT_JWKS": f"http://{nowhere}/jwks"}
    tokens = {"AUTH_JWT_ISSUER": "https://issuer.example.com", "AUTH_JWT_AUDIENCE": "mcp"}
    done = start("check", AUTH_ENABLED="true", PUBLIC_URL="https://mcp.example.com", **tokens, **away)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("template-mcp 0.1.0 (anyreplica 0.2.0): settings and components are valid.\n")
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
    told = (
        "template-mcp 0.1.0 (anyreplica 0.2.0): settings and jobs are valid.\njobs       export_data, generate_report\n"
    )
    assert done.stdout == told
    assert start("check", "--worker").returncode == 3


def test_a_startup_error_is_not_changed() -> None:
    """`refusing` does not change the text of a `StartupError`, which is already written for operators."""
    with pytest.raises(StartupError, match=r"^MCP_PORT: no$"), refusing():
        raise StartupError("MCP_PORT: no")

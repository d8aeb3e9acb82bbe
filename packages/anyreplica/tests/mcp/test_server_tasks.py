"""Tests of the queue of tools with `task=True`."""

from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.server.extensions import ServerExtension
from fastmcp_tasks import TasksExtension
from pydantic import SecretStr

from anyreplica import Settings, StartupError, create_app
from anyreplica.components.job import JobMeta, make_job
from anyreplica.features.jobs import server_tasks
from anyreplica.features.jobs.service import JobService
from anyreplica.features.jobs.tools import TASKS_EXTENSION
from anyreplica.mcp.compat import sdk

OWN, OTHER = "redis://127.0.0.1:6379/1", "redis://127.0.0.1:6379/2"
KEYED: dict[str, Any] = {"mcp_components": (), "request_state_keys": SecretStr("0" * 64)}


@pytest.mark.parametrize(
    ("author", "operator", "queue"),
    [
        (None, OWN, OWN),
        ("memory://", OWN, OWN),
        ("memory://tasks", OWN, OWN),
        (OTHER, OWN, OTHER),
        (OTHER, "memory://", OTHER),
        ("memory://", "memory://", ""),
        (None, "memory://", ""),
    ],
)
def test_the_queue_of_the_operator_replaces_one_in_memory(
    monkeypatch: pytest.MonkeyPatch, author: str | None, operator: str, queue: str
) -> None:
    """An author's queue in memory is for a single process. With a `JOBS_URL`, several replicas start all the same."""
    for changes_the_process in ("_encrypt", "_assign_owners"):
        monkeypatch.setattr(server_tasks, changes_the_process, lambda *_: None)

    async def later() -> str:
        return "done"

    mcp, extension = FastMCP("server"), TasksExtension(url=author)
    mcp.add_extension(extension)
    mcp.tool(later, task=True)
    settings = Settings(**KEYED, jobs_url=SecretStr(operator), mcp_replicas=3)
    create_app(mcp, settings)
    service = JobService({}, settings, "", lambda: None)
    if queue:
        for _ in range(2):  # a test of the author may serve the same server twice
            server_tasks.offer_tasks(mcp, service, settings)
        assert extension.docket_settings.url == queue
    else:
        with pytest.raises(StartupError, match=r"^JOBS_URL=memory://: the tasks of later need a queue"):
            server_tasks.offer_tasks(mcp, service, settings)


class OwnTasks(ServerExtension):
    """An extension that an author has written, with the name of the tasks extension."""

    identifier = TASKS_EXTENSION


def test_an_authors_own_tasks_extension_stays() -> None:
    """It is not FastMCP's extension, so it has no queue to configure."""
    mcp, settings = FastMCP("server"), Settings(mcp_components=())
    mcp.add_extension(OwnTasks())
    server_tasks.offer_tasks(mcp, JobService({}, settings, "", lambda: None), settings)
    assert isinstance(sdk.extensions_of(mcp)[TASKS_EXTENSION], OwnTasks)


def test_an_authors_own_tasks_extension_beside_jobs_stops_the_start() -> None:
    """The extension for jobs would replace it."""
    mcp, settings = FastMCP("server"), Settings(**KEYED, jobs_url=SecretStr(OWN))
    mcp.add_extension(OwnTasks())

    async def report() -> str:
        return "done"

    jobs = {"report": make_job(report, JobMeta(None, None, 0, None))}
    with pytest.raises(StartupError, match=r"^extension io\.modelcontextprotocol/tasks: the server's own OwnTasks has"):
        server_tasks.offer_tasks(mcp, JobService(jobs, settings, "", lambda: None), settings)

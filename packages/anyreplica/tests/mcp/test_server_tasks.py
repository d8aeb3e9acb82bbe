"""Tests of the queue of tools with `task=True`."""

import pytest
from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension
from pydantic import SecretStr

from anyreplica import Settings, StartupError, create_app
from anyreplica.features.jobs import server_tasks
from anyreplica.features.jobs.service import JobService

OWN, OTHER = "redis://127.0.0.1:6379/1", "redis://127.0.0.1:6379/2"


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
    settings = Settings(
        mcp_components=(), jobs_url=SecretStr(operator), mcp_replicas=3, request_state_keys=SecretStr("0" * 64)
    )
    create_app(mcp, settings)
    service = JobService({}, settings, "", lambda: None)
    if queue:
        for _ in range(2):  # a test of the author may serve the same server twice
            server_tasks.offer_tasks(mcp, service, settings)
        assert extension.docket_settings.url == queue
    else:
        with pytest.raises(StartupError, match=r"^JOBS_URL=memory://: the tasks of later need a queue"):
            server_tasks.offer_tasks(mcp, service, settings)

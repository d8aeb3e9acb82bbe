"""The arguments and results of tools with `task=True` have limits by caller and by replica."""

import json
from pathlib import Path
from typing import Any

import pytest
from docket import Docket
from fastmcp import FastMCP

from anyreplica import Settings, create_app
from anyreplica.features.jobs.task_bytes import KEPT_SECONDS, TaskBytes
from anyreplica.features.keys.key import hash_of
from anyreplica.testing import Client, replica
from conftest import until
from tests.auth.test_crossing import ask

KEYS = {name: f"a-key-with-more-than-32-characters-of-{name}" for name in ("ada", "bob")}
MOST = 2 * 1024 * 1024


def test_fastmcp_keeps_tasks_as_long_as_they_count() -> None:
    """The time is the default of Docket, which FastMCP does not change."""
    assert Docket(name="any", url="memory://any").execution_ttl.total_seconds() == KEPT_SECONDS


def test_tasks_count_until_they_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """One caller gets half, others the rest, and everything is free again after the time."""
    kept = TaskBytes(MOST)
    monkeypatch.setattr("anyreplica.features.jobs.task_bytes.KEPT_SECONDS", 0.2)
    kept.keep("ada", "x" * (MOST // 5))
    assert not kept.has_room("ada", "x" * (MOST // 5))
    assert kept.has_room(None, "x" * (MOST // 5))
    until(lambda: kept.has_room("ada", "x" * (MOST // 5)), "the task has expired")
    assert kept.used == 0


def result_of(client: Client, user: str, **arguments: Any) -> str:
    """Call the tool as a task, wait for its end, and return the text of the result or of the error."""
    started = ask(client, KEYS[user], "tools/call", {"name": "repeat", "arguments": arguments})["result"]
    if "taskId" not in started:
        return str(started["content"][0]["text"])
    found: list[Any] = []

    def has_ended() -> bool:
        found.append(ask(client, KEYS[user], "tasks/get", {"taskId": started["taskId"]})["result"])
        return found[-1]["status"] not in ("working", "submitted")

    until(has_ended, "the task has ended")
    return str(found[-1]["result"]["content"][0]["text"])


def test_the_tasks_of_a_caller_have_a_share(tmp_path: Path) -> None:
    """Beyond its share, a caller gets errors with the limits. Another caller can still run tasks."""
    mcp = FastMCP("server")

    @mcp.tool(task=True)
    async def repeat(text: str, times: int) -> str:
        return text * times

    (tmp_path / "keys").write_text("".join(json.dumps({"id": n, "hash": hash_of(k)}) + "\n" for n, k in KEYS.items()))
    settings = Settings(mcp_components=(), auth_enabled=True, api_keys_file=tmp_path / "keys", jobs_max_task_bytes=MOST)
    with replica(lambda: create_app(mcp, settings)) as client:
        lengths = [len(result_of(client, "ada", text="x", times=200_000)) for _ in range(4)]
        assert lengths[:2] == [200_000] * 2
        assert max(lengths[2:]) < 1000
        error = result_of(client, "ada", text="x", times=200_000)
        assert "No room for the result of this task" in error
        assert (
            "1048576 bytes for all tasks of one caller, and 2097152 bytes for a replica (JOBS_MAX_TASK_BYTES)" in error
        )
        assert "No room for the arguments of this task" in result_of(client, "ada", text="x" * 400_000, times=0)
        assert len(result_of(client, "bob", text="x", times=200_000)) == 200_000

"""The arguments and results of tools with `task=True` have limits by caller and by replica."""

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docket import Docket
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.extensions import ServerExtension, ToolCallContinuation, ToolCallOutcome
from fastmcp.utilities.types import Audio, File, Image
from fastmcp_tasks.models import CreateTaskResult
from mcp_types import CallToolRequestParams, CallToolResult

from anyreplica import Settings, create_app
from anyreplica.features.jobs import server_tasks
from anyreplica.features.jobs.record import KEPT_SECONDS, TaskBytes
from anyreplica.features.jobs.server_tasks import TaskRounds
from anyreplica.features.jobs.tools import TASKS_EXTENSION
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
    monkeypatch.setattr("anyreplica.features.jobs.record.KEPT_SECONDS", 0.2)
    large = {"text": "x" * (MOST // 5)}
    kept.keep_arguments("ada", large)
    assert not has_room(kept, "ada", large)
    assert has_room(kept, None, large)
    until(lambda: has_room(kept, "ada", large), "the task has expired")
    assert kept.used == 0


def has_room(kept: TaskBytes, owner: str | None, arguments: dict[str, Any]) -> bool:
    """Return whether the arguments may be kept. They are not kept."""
    try:
        kept.release(kept.keep_arguments(owner, arguments))
    except ToolError:
        return False
    return True


@pytest.mark.parametrize("kind", [Image, File, Audio])
@pytest.mark.parametrize("is_list", [False, True])
def test_media_counts_with_its_content(kind: type[Image | File | Audio], *, is_list: bool) -> None:
    """An image of 1 MB is no text of 41 bytes."""
    kept, media = TaskBytes(8 * MOST), kind(data=bytes(1_000_000))
    kept.keep_result("ada", [media, "text"] if is_list else media)
    assert kept.used > 1_333_000, "FastMCP keeps it as base64"


@pytest.mark.parametrize(
    ("owner", "other"),
    [
        ("key:gateway>user:1", "key:gateway>user:2"),
        ("key:gateway>unknown:1", "key:gateway"),
        ("unknown:1", "unknown:2"),
        ("unknown:1", None),
        ("credentials:1", "credentials:2"),
    ],
)
def test_one_key_is_one_caller_and_so_are_all_unknown_callers(owner: str, other: str | None) -> None:
    """They share one half of the limit. Another caller has its own half."""
    kept, large = TaskBytes(MOST), {"text": "x" * (MOST // 5)}
    kept.keep_arguments(owner, large)
    assert not has_room(kept, other, large)
    assert has_room(kept, "key:other", large)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


class Outcomes(ServerExtension):
    """Stands for FastMCP's extension: each call ends after a pause, as a task, with a plain result or with an error."""

    identifier = TASKS_EXTENSION

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        del context, call_next
        await asyncio.sleep(0.01)
        match params.name:
            case "task":
                now = "2026-01-01T00:00:00Z"
                return CreateTaskResult(task_id="1", status="working", created_at=now, last_updated_at=now, ttl_ms=1)
            case "fails":
                raise ValueError("failed")
        return CallToolResult(content=[])


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> TaskRounds:
    """The extension for tasks, which calls `Outcomes`. A call of `no_task` never becomes a task; others may."""

    async def becomes_task(params: CallToolRequestParams, _: Any) -> bool:
        return params.name != "no_task"

    async def asks_first(*_: Any) -> bool:
        return False

    monkeypatch.setattr(server_tasks, "_becomes_task", becomes_task)
    monkeypatch.setattr(server_tasks, "_asks_first", asks_first)
    return TaskRounds(Outcomes(), TaskBytes(MOST))


async def intercepted(rounds: TaskRounds, name: str, arguments: dict[str, Any]) -> Any:
    """Call a tool."""
    context: Any = SimpleNamespace(request_state=None)
    call_next: Any = None
    return await rounds.intercept_tool_call(CallToolRequestParams(name=name, arguments=arguments), context, call_next)


@in_a_loop
async def test_calls_that_arrive_together_share_the_room(rounds: TaskRounds) -> None:
    """Only as many of them become tasks as the limit allows."""
    large = {"text": "x" * (MOST // 10)}
    found = await asyncio.gather(*(intercepted(rounds, "task", large) for _ in range(10)), return_exceptions=True)
    assert [type(each) for each in found] == [CreateTaskResult] * 2 + [ToolError] * 8


@in_a_loop
async def test_a_call_that_becomes_no_task_gives_its_room_back(rounds: TaskRounds) -> None:
    """It ends with a plain result or with an error, or its client hangs up."""
    large = {"text": "x" * (MOST // 5)}
    for _ in range(3):
        assert isinstance(await intercepted(rounds, "plain", large), CallToolResult)
        with pytest.raises(ValueError, match="failed"):
            await intercepted(rounds, "fails", large)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(intercepted(rounds, "task", large), 0.001)
    assert rounds._sizes.used == 0


@in_a_loop
async def test_only_the_arguments_of_a_task_are_measured(rounds: TaskRounds, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are measured once. The arguments of any other call are not."""
    measured: list[Any] = []

    def measure(value: Any, **_: Any) -> bytes:
        measured.append(value)
        return b""

    monkeypatch.setattr("anyreplica.features.jobs.record.to_json", measure)
    await intercepted(rounds, "no_task", {"a": 1})
    assert measured == []
    await intercepted(rounds, "task", {"a": 1})
    assert measured == [{"a": 1}]


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

"""Tests of jobs for MCP clients: the protocol's tasks, a tool for each job, and four plain tools."""

from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp_tasks.client import call_tool_task

from tests.calls import ENVELOPE, call, legacy, modern, post, request, text
from tests.jobs.queue import Jobs, Queue
from tests.mcp.any_replica.listeners import listening

pytestmark = pytest.mark.needs("redis")

PLAIN = {"submit_job", "job_status", "job_result", "cancel_job"}
DECLARED = {
    **ENVELOPE,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}


def tasked(jobs: Jobs, method: str, params: dict[str, Any], **headers: str) -> dict[str, Any]:
    """Send a request of a client that declares the tasks extension. Return the JSON-RPC response."""
    sent = {**params, "_meta": DECLARED}
    routing = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Accept": "application/json"}
    routing["Mcp-Name"] = params.get("name") or params["taskId"]
    reply = post(jobs.url, json=request(method, sent), headers={**routing, **headers})
    message: dict[str, Any] = reply.json()
    return message


@pytest.mark.anyio
async def test_the_official_client_follows_a_task(jobs: Jobs, tmp_path: Path) -> None:
    """FastMCP's client can wait for a task, cancel a task and read the error of a failed task."""
    async with Client(f"{jobs.url}/mcp", mode="2026-07-28") as client:
        done = await client.call_tool("typed", {"count": 2, "names": ["a"]})
        assert done.structured_content == {"a": 4.0}
        task = await call_tool_task(client, "nap", {"seconds": 30, "mark": str(tmp_path / "mark")})
        assert (await task.status()).status == "working"
        await task.cancel()
        assert (await task.status()).status == "cancelled"
        final = await (await call_tool_task(client, "tells", {"why": "no such table"})).wait()
        assert final.error is not None
        assert (final.status, final.error["message"]) == ("failed", "no such table")


def test_another_replica_answers_requests_for_a_task(replicas: tuple[Jobs, Jobs], tmp_path: Path) -> None:
    """Another replica answers requests for a task with its progress. The task's id is also the job's id in REST."""
    here, there = replicas
    nap = {"name": "nap", "arguments": {"seconds": 60, "mark": str(tmp_path / "m")}}
    created = tasked(here, "tools/call", nap)["result"]
    assert (created["resultType"], created["status"]) == ("task", "working")
    identity = created["taskId"]
    got: dict[str, Any] = {}
    while "step" not in got.get("statusMessage", ""):
        got = tasked(there, "tasks/get", {"taskId": identity})["result"]
    assert (got["resultType"], got["status"]) == ("complete", "working")
    assert tasked(there, "tasks/cancel", {"taskId": identity})["result"]["resultType"] == "complete"
    assert tasked(here, "tasks/get", {"taskId": identity})["result"]["status"] == "cancelled"
    text_of = {"name": "text_of", "arguments": {"length": 2}}
    identity = tasked(here, "tools/call", text_of)["result"]["taskId"]
    there.wait(identity)
    got = tasked(there, "tasks/get", {"taskId": identity})["result"]
    assert got["status"] == "completed"
    assert got["result"]["content"] == [{"type": "text", "text": "xx"}]
    assert got["ttlMs"] == 3_600_000
    assert tasked(there, "tasks/update", {"taskId": identity, "inputResponses": {}})["result"]["resultType"]
    assert tasked(there, "tasks/cancel", {"taskId": identity})["result"]["resultType"] == "complete"
    assert there.status(identity)["status"] == "completed", "a cancellation does not change a finished task"


def test_unknown_tasks_are_not_found(jobs: Jobs) -> None:
    """An unknown task is an invalid parameter (-32602). A header Mcp-Name of another task is refused (-32020)."""
    for method in ("tasks/get", "tasks/cancel"):
        assert tasked(jobs, method, {"taskId": "none"})["error"]["code"] == -32602
    wrong = tasked(jobs, "tasks/get", {"taskId": "none"}, **{"Mcp-Name": "other"})
    assert wrong["error"]["code"] == -32020


def test_a_client_without_the_extension_gets_no_task(jobs: Jobs) -> None:
    """A client that does not declare the tasks extension gets a result; a request for a task names what it lacks."""
    url = jobs.url
    undeclared = modern(url, "tasks/get", {"taskId": "x"}).json()["error"]
    assert undeclared["code"] == -32021
    assert undeclared["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    assert legacy(url, "tasks/get", {"taskId": "x"}).json()["error"]["code"] == -32601
    arguments = {"name": "text_of", "arguments": {"length": 2}}
    for reply in (modern(url, "tools/call", arguments), legacy(url, "tools/call", arguments)):
        assert text(reply.json()["result"]) == "xx"


def test_arguments_are_checked_before_a_task_exists(jobs: Jobs) -> None:
    """All ways to submit a job check the arguments by the tool's schema before a task exists."""
    url = jobs.url
    wrong = {"count": "many", "names": []}
    for answer in (
        tasked(jobs, "tools/call", {"name": "typed", "arguments": wrong})["result"],
        call(url, "typed", wrong),
        call(url, "submit_job", {"job": "typed", "arguments": wrong}),
    ):
        assert answer["isError"]
        assert "count: Input should be a valid integer" in text(answer)
    tools = {tool["name"]: tool for tool in legacy(url, "tools/list").json()["result"]["tools"]}
    assert tools["typed"]["inputSchema"]["required"] == ["count", "names"]
    assert "progress" not in tools["nap"]["inputSchema"]["properties"]
    assert tools.keys() >= PLAIN


def test_the_tool_of_a_job_waits_for_a_short_time(replicas: tuple[Jobs, Jobs], tmp_path: Path) -> None:
    """The tool of a job waits for JOBS_WAIT_SECONDS and then explains how to get the result."""
    here, there = replicas
    answer = call(here.url, "nap", {"seconds": 3, "mark": str(tmp_path / "mark")})
    identity = answer["structuredContent"]["id"]
    how = f"Call job_status or job_result with job_id {identity!r}."
    assert text(answer) == f"The job is still running after 1 s. {how}"
    there.wait(identity)
    assert call(there.url, "job_result", {"job_id": identity})["structuredContent"]["result"] == "slept"
    failed = call(here.url, "tells", {"why": "no such table"})
    assert (failed["isError"], text(failed)) == (True, "tells: no such table")


def test_four_plain_tools_work_for_any_client(replicas: tuple[Jobs, Jobs], tmp_path: Path) -> None:
    """Any client can use a job with the four plain tools, each call on another replica."""
    here, there = (each.url for each in replicas)
    arguments = {"seconds": 30, "mark": str(tmp_path / "mark")}
    submission = {"job": "nap", "arguments": arguments, "idempotency_key": "k"}
    identity = call(here, "submit_job", submission)["structuredContent"]["id"]
    assert call(there, "submit_job", submission)["structuredContent"]["id"] == identity
    conflict = call(there, "submit_job", {**submission, "arguments": {**arguments, "seconds": 1}})
    assert text(conflict) == "This Idempotency-Key was used for another job or other arguments; use a new key."
    assert call(there, "job_status", {"job_id": identity})["structuredContent"]["status"] in ("pending", "running")
    assert "result" not in call(here, "job_result", {"job_id": identity})["structuredContent"]
    assert call(there, "cancel_job", {"job_id": identity})["structuredContent"]["status"] == "cancelled"
    gone = call(here, "job_result", {"job_id": identity})
    assert (gone["isError"], text(gone)) == (True, "nap: cancelled")
    assert "There is no such job" in text(call(here, "job_status", {"job_id": "none"}))


def test_a_job_reaches_the_listeners_of_a_replica(jobs_queue: Queue) -> None:
    """A job announces the update of a resource in its worker; a listener at a replica gets it."""
    settings = {"REDIS_URL": jobs_queue.redis.url}
    replica = jobs_queue.replica(**settings)
    jobs_queue.worker(**settings)
    with listening(jobs_queue.started[0], {"resourceSubscriptions": ["orders://today"]}) as events:
        replica.submit("announces", uri="orders://today")
        assert next(events)["params"]["uri"] == "orders://today"

"""Tests that a component that misbehaves affects only its own call."""

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from anyreplica.components.containment import contain
from anyreplica.mcp.compat.threads import Threads
from conftest import Server, StartServer, until
from tests.calls import call, legacy, modern, text

SECRET = "hunter2"
EXITS = ["exits", "exits_in_thread", "exits_in_a_task_group", "exits_in_gather", "depends_on_an_exit", "made_by_hand"]
CANCELLED = ["interrupts", "cancels_itself", "cancels_its_own_task"]


@pytest.mark.parametrize("tool", ["raises", *EXITS, *CANCELLED])
def test_the_exception_of_a_tool_affects_only_its_call(hostile: Server, tool: str) -> None:
    """The caller reads that the tool has failed; only the log has the reason, once. The replica serves on."""
    for family in (legacy, modern):
        before = len(hostile.output)
        reply = family(hostile.url, "tools/call", {"name": tool, "arguments": {}}, **{"X-Request-ID": "find-me"})
        assert reply.status_code == 200
        result = reply.json()["result"]
        assert result["isError"]
        assert text(result) == f"Error calling tool '{tool}'"
        until(lambda: "tools/call" in hostile.output[before:], "the access log contains the call")  # noqa: B023
        logged = hostile.output[before:]
        reports = [line for line in logged.splitlines() if "[find-me] Error calling tool" in line]
        assert len(reports) == 1, logged
        chained = logged.count("direct cause") + logged.count("During handling")
        assert logged.count("Traceback (most recent call last)") - chained - logged.count("| Traceback") <= 1
        assert text(call(hostile.url, "echo", {"message": "still here"})) == "still here"


NO_JSON = "tool '{}' returned a value that cannot be written as JSON: {}"
TOO_MANY = "Result too large: the generator yielded more than 100000 items"


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("raises_for_the_caller", "no such account"),
        ("complains_in_surrogates", "broken ? text"),
        ("returns_surrogate", NO_JSON.format("returns_surrogate", "the text is not Unicode")),
        ("returns_itself", NO_JSON.format("returns_itself", "0: the value contains itself")),
        ("returns_infinity", NO_JSON.format("returns_infinity", "Infinity is not a JSON number")),
        *((tool, TOO_MANY) for tool in ("yields_for_ever", "yields_for_ever_in_thread")),
    ],
)
def test_the_caller_reads_the_reason(hostile: Server, tool: str, reason: str) -> None:
    """The caller gets the text of a ToolError, and the reason why a result cannot be sent."""
    result = call(hostile.url, tool)
    assert result["isError"]
    assert text(result) == reason


@pytest.mark.parametrize(
    ("tool", "text_", "structured"),
    [
        ("streams", r"\[0,1,2\]", None),
        ("streams_in_thread", r"\[0,1,2\]", None),
        ("returns_bytes", "//4=", None),
        ("returns_object", ".*_Opaque object.*", None),
        ("returns_words_like_nan", ".*", {"name": "NaN, Infinity"}),
    ],
)
def test_valid_results_stay_as_they_are(hostile: Server, tool: str, text_: str, structured: object) -> None:
    """Containment does not change generators, bytes and texts. Without an output schema, an object becomes text."""
    result = call(hostile.url, tool)
    assert not result["isError"], text(result)
    assert re.fullmatch(text_, text(result)), text(result)
    assert result.get("structuredContent") == structured


@pytest.mark.parametrize(
    ("tool", "seconds"),
    [
        ("never_ends", 0.3),
        ("never_ends_in_thread", 0.3),
        ("never_ends_by_default", 1),
        ("swallows_its_cancellation", 0.3),
        ("depends_on_what_hangs", 1),
    ],
)
def test_a_tool_that_never_ends_is_stopped(hostile: Server, tool: str, seconds: float) -> None:
    """A tool that never ends fails after its own timeout or CALL_TIMEOUT_SECONDS, while other calls are served."""
    with ThreadPoolExecutor() as pool:
        endless = [pool.submit(call, hostile.url, tool) for _ in range(8)]
        assert text(call(hostile.url, "echo", {"message": "beside"})) == "beside"
        for result in (future.result() for future in endless):
            assert result["isError"]
            assert text(result) == f"tool '{tool}' did not finish within {seconds:g} s"


def test_stuck_threads_do_not_affect_other_tools(hostile: Server) -> None:
    """If the threads of a synchronous tool never end, other tools still run, because each tool has its own threads."""
    for _ in range(3):  # more than TOOL_THREADS
        call(hostile.url, "never_ends_in_thread")
    assert text(call(hostile.url, "names_its_thread")) == "anyreplica worker thread 1"
    assert text(call(hostile.url, "stays_on_the_loop")) == "MainThread"


def test_stuck_threads_and_tasks_do_not_delay_the_end(start_server: StartServer) -> None:
    """A replica stops although threads and tasks of tools never end, and although Python waits for threads at exit."""
    server = start_server(MCP_COMPONENTS="tests.packs.hostile")
    call(server.url, "never_ends_in_thread")
    call(server.url, "swallows_its_cancellation")
    assert server.stop(seconds=10) == 0


def test_prompts_and_resources_are_contained_too(hostile: Server) -> None:
    """Errors of prompts and resources are hidden from the caller, logged once, and affect only their own call."""
    reply = legacy(hostile.url, "resources/read", {"uri": "hostile://surrogate"})
    assert (reply.status_code, reply.json()["id"]) == (200, 1)
    reason = "resource 'unwritable' returned a value that cannot be written as JSON: the text is not Unicode"
    assert reply.json()["error"]["message"] == reason
    until(lambda: "resources/read hostile://surrogate" in hostile.output, "the access log contains the call")
    before = len(hostile.output)
    for method, params in (("prompts/get", {"name": "fails"}), ("resources/read", {"uri": "hostile://fails"})):
        reply = legacy(hostile.url, method, params)
        assert "Error re" in reply.json()["error"]["message"]
        assert SECRET not in reply.text
    assert legacy(hostile.url, "resources/read", {"uri": "hostile://exits/3"}).json()["error"]
    until(lambda: hostile.output[before:].count("anyreplica.access") == 3, "the access log contains three entries")
    assert hostile.output[before:].count(f"ValueError: the password is {SECRET}") == 2
    assert text(call(hostile.url, "echo", {"message": "still here"})) == "still here"


@pytest.mark.parametrize(("tool", "arguments"), [("blocks_the_loop", {"seconds": 60}), ("backtracks", {})])
def test_a_blocked_event_loop_ends_only_its_replica(start_server: StartServer, tool: str, arguments: Any) -> None:
    """The watchdog logs the place where an event loop is blocked and ends the replica.

    The other replica continues to serve. If a tool holds the interpreter's lock, no Python thread runs, so C code ends
    the process.
    """
    server = start_server("--replicas", "2", MCP_COMPONENTS="server,tests.packs.hostile", LOOP_STALL_SECONDS="1")
    with pytest.raises(httpx.HTTPError):
        call(server.url, tool, arguments)
    assert f"in {tool}" in server.output

    def served() -> bool:
        try:
            return text(call(server.url, "echo", {"message": "still here"})) == "still here"
        except httpx.HTTPError:  # The connection belonged to the replica that has ended.
            return False

    until(served, "the other replica answers")


def test_code_that_blocks_the_event_loop_is_named(start_server: StartServer) -> None:
    """The log names the tool and its line after a second, once, also if the watchdog is off as with `make dev`."""
    server = start_server(MCP_COMPONENTS="server,tests.packs.hostile", LOOP_STALL_SECONDS="0")
    for _ in range(2):
        call(server.url, "blocks_the_loop", {"seconds": 2})
    (line,) = [line for line in server.output.splitlines() if "has blocked the event loop for 1 s" in line]
    assert re.search(r"tests/packs/hostile/\w+\.py:\d+ \(blocks_the_loop\)", line)


def test_an_exit_in_the_background_ends_only_its_task(start_server: StartServer) -> None:
    """An exit in a background task ends only that task and is logged."""
    server = start_server(MCP_COMPONENTS="server,tests.packs.hostile")
    assert text(call(server.url, "exits_in_the_background")) == "done"
    until(lambda: "a task raised SystemExit" in server.output, "the log reports the exit of the task")
    assert text(call(server.url, "echo", {"message": "still here"})) == "still here"


@pytest.mark.anyio
async def test_calls_of_a_synchronous_tool_run_concurrently() -> None:
    """A synchronous tool runs as many calls at once as it has threads: with fewer, none would pass the barrier."""
    barrier = threading.Barrier(8)

    def meets() -> int:
        return barrier.wait(10)

    contained = contain(meets, threads=Threads(8), kind="tool", what="tool 'meets'")
    assert set(await asyncio.gather(*(contained() for _ in range(8)))) == set(range(8))

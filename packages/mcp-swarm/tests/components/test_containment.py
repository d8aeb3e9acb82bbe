"""A component that misbehaves harms its own call only."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from conftest import Server, StartServer, until
from mcp_swarm.components.containment import contain
from tests.calls import call, legacy, modern, text

SECRET = "hunter2"


@pytest.mark.parametrize(
    "tool",
    [
        "raises",
        "exits",
        "exits_in_thread",
        "exits_in_a_task_group",
        "exits_in_gather",
        "interrupts",
        "cancels_itself",
        "cancels_its_own_task",
        "depends_on_an_exit",
        "made_by_hand",
    ],
)
def test_what_a_tool_raises_stays_inside(hostile: Server, tool: str) -> None:
    """The caller reads that the tool failed, not why; the log has the traceback once; the replica serves on."""
    for family in (legacy, modern):
        before = len(hostile.output)
        reply = family(hostile.url, "tools/call", {"name": tool, "arguments": {}}, **{"X-Request-ID": "find-me"})
        assert reply.status_code == 200
        result = reply.json()["result"]
        assert result["isError"]
        assert text(result) == f"Error calling tool '{tool}'"
        until(lambda: "tools/call" in hostile.output[before:], "the access log's line")  # noqa: B023
        logged = hostile.output[before:]
        reports = [line for line in logged.splitlines() if "[find-me] Error calling tool" in line]
        assert len(reports) == 1, logged
        chained = logged.count("direct cause") + logged.count("During handling")
        assert logged.count("Traceback (most recent call last)") - chained - logged.count("| Traceback") <= 1
        assert text(call(hostile.url, "echo", {"message": "still here"})) == "still here"


def test_an_error_for_the_caller_arrives(hostile: Server) -> None:
    """ToolError is how a tool author speaks to the caller."""
    result = call(hostile.url, "raises_for_the_caller")
    assert result["isError"]
    assert text(result) == "no such account"


def test_debug_errors_shows_the_reason(start_server: StartServer) -> None:
    """Masked by default; a developer may look."""
    server = start_server(MCP_COMPONENTS="tests.packs.hostile", DEBUG_ERRORS="true")
    assert SECRET in text(call(server.url, "raises"))


@pytest.mark.parametrize("tool", ["returns_object", "returns_surrogate", "returns_itself", "returns_infinity"])
def test_a_result_that_json_cannot_carry_is_a_tool_error(hostile: Server, tool: str) -> None:
    """Stock FastMCP answers HTTP 500 without the request's id, or the object's repr."""
    result = call(hostile.url, tool)
    assert result["isError"]
    assert text(result) == f"tool '{tool}' returned a value that cannot be written as JSON"


@pytest.mark.parametrize(
    ("tool", "expected"),
    [("streams", "[0,1,2]"), ("streams_in_thread", "[0,1,2]"), ("returns_bytes", "//4=")],
)
def test_generators_and_bytes_still_work(hostile: Server, tool: str, expected: str) -> None:
    """Containment changes nothing about good results."""
    result = call(hostile.url, tool)
    assert not result["isError"], text(result)
    assert text(result) == expected


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
def test_a_tool_that_never_ends_is_given_up(hostile: Server, tool: str, seconds: float) -> None:
    """Its own timeout, or the setting's; other calls are served in the meantime."""
    with ThreadPoolExecutor() as pool:
        endless = [pool.submit(call, hostile.url, tool) for _ in range(8)]
        assert text(call(hostile.url, "echo", {"message": "beside"})) == "beside"
        for result in (future.result() for future in endless):
            assert result["isError"]
            assert text(result) == f"tool '{tool}' did not finish within {seconds:g} s"


@pytest.mark.parametrize("tool", ["yields_for_ever", "yields_for_ever_in_thread"])
def test_a_generator_that_never_ends_is_stopped(hostile: Server, tool: str) -> None:
    """Before it fills the memory."""
    result = call(hostile.url, tool)
    assert result["isError"]
    assert text(result) == "Result too large: the generator yielded more than 100000 items"


def test_text_that_looks_like_nan_passes(hostile: Server) -> None:
    """Only numbers are refused."""
    assert call(hostile.url, "returns_words_like_nan")["structuredContent"] == {"name": "NaN, Infinity"}


def test_unwritable_text_is_an_error_of_its_own_call(hostile: Server) -> None:
    """In an error's message and in a resource; the request's id is kept."""
    assert text(call(hostile.url, "complains_in_surrogates")) == "broken ? text"
    reply = legacy(hostile.url, "resources/read", {"uri": "hostile://surrogate"})
    assert (reply.status_code, reply.json()["id"]) == (200, 1)
    assert reply.json()["error"]["message"] == "resource 'unwritable' returned a value that cannot be written as JSON"


def test_threads_that_never_end_cost_other_tools_nothing(hostile: Server) -> None:
    """Each synchronous tool has threads of its own; stuck ones of another don't count."""
    for _ in range(3):  # more than TOOL_THREADS
        call(hostile.url, "never_ends_in_thread")
    assert text(call(hostile.url, "names_its_thread")) == "AnyIO worker thread 1"
    assert text(call(hostile.url, "stays_on_the_loop")) == "MainThread"


def test_stuck_threads_and_tasks_do_not_keep_a_replica_from_ending(start_server: StartServer) -> None:
    """Python waits for threads when it exits; a drained replica must not."""
    server = start_server(MCP_COMPONENTS="tests.packs.hostile")
    call(server.url, "never_ends_in_thread")
    call(server.url, "swallows_its_cancellation")
    assert server.stop(seconds=10) == 0


def test_prompts_and_resources_are_contained_too(hostile: Server) -> None:
    """Their errors are masked, logged once, and end no process."""
    before = len(hostile.output)
    for method, params in (
        ("prompts/get", {"name": "fails"}),
        ("resources/read", {"uri": "hostile://fails"}),
    ):
        reply = legacy(hostile.url, method, params)
        assert "Error re" in reply.json()["error"]["message"]
        assert SECRET not in reply.text
    assert legacy(hostile.url, "resources/read", {"uri": "hostile://exits/3"}).json()["error"]
    until(lambda: hostile.output[before:].count("mcp_swarm.access") == 3, "three lines of access log")
    assert hostile.output[before:].count(f"ValueError: the password is {SECRET}") == 2
    assert text(call(hostile.url, "echo", {"message": "still here"})) == "still here"


def test_a_loop_that_stands_still_ends_its_replica_only(start_server: StartServer) -> None:
    """The watchdog says where it stands; the supervisor starts another; the others serve on."""
    server = start_server("--replicas", "2", MCP_COMPONENTS="tests.sample,tests.packs.hostile", LOOP_STALL_SECONDS="1")
    with pytest.raises(httpx.HTTPError):
        call(server.url, "blocks_the_loop", {"seconds": 60})
    assert "in blocks_the_loop" in server.output

    def served() -> bool:
        try:
            return text(call(server.url, "echo", {"message": "still here"})) == "still here"
        except httpx.HTTPError:  # was in the line of the replica that ended
            return False

    until(served, "the other replica serves on", 5)


def test_a_loop_that_holds_the_interpreter_ends_its_replica_too(start_server: StartServer) -> None:
    """No Python thread runs then, the watchdog's neither; C code ends the process."""
    server = start_server("--replicas", "2", MCP_COMPONENTS="tests.sample,tests.packs.hostile", LOOP_STALL_SECONDS="1")
    with pytest.raises(httpx.HTTPError):
        call(server.url, "backtracks")
    assert "in backtracks" in server.output


def test_an_exit_in_the_background_is_only_that_task(start_server: StartServer) -> None:
    """The replica logs it and serves on."""
    server = start_server(MCP_COMPONENTS="tests.sample,tests.packs.hostile")
    assert text(call(server.url, "exits_in_the_background")) == "done"
    until(lambda: "a task raised SystemExit" in server.output, "the task's exit is logged")
    assert text(call(server.url, "echo", {"message": "still here"})) == "still here"


def test_calls_of_a_synchronous_tool_run_side_by_side() -> None:
    """As many as it has threads for: fewer would never get past the barrier."""
    barrier = threading.Barrier(8)

    def meets() -> int:
        return barrier.wait(10)

    async def scenario() -> set[int]:
        contained = contain(meets, threads=8, kind="tool", what="tool 'meets'")
        return set(await asyncio.gather(*(contained() for _ in range(8))))

    assert asyncio.run(scenario()) == set(range(8))

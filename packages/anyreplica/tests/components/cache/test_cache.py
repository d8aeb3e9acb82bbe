"""Tests of cached results on one replica."""

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from anyreplica.features.keys.key import hash_of
from conftest import Server, StartServer, until
from tests.calls import call, legacy, modern, text
from tests.metrics.page import Scrape

PACK = "tests.packs.cached"
_marks = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica with a small cache."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "runs").touch()
    with Server(folder / "log", MCP_COMPONENTS=PACK, RUNS=str(folder / "runs"), CACHE_BYTES="20000") as found:
        yield found


@pytest.fixture
def mark() -> str:
    """An argument that no other test uses."""
    return f"mark-{next(_marks)}"


def given(server: Server, tool: str, mark: str, **arguments: Any) -> Any:
    """Return the value of a call."""
    return call(server.url, tool, {"mark": mark, **arguments})["structuredContent"]["result"]


def ran(server: Server, mark: str) -> int:
    """Return the number of runs of a tool."""
    count: int = given(server, "runs", mark)
    return count


def test_a_result_is_cached(server: Server, mark: str) -> None:
    """Equal arguments, in any order or as defaults, get the cached result in both protocols. The metrics count it."""

    def counted(result: str) -> float:
        return Scrape(server.url).value("mcp_cache_requests_total", tool="public", result=result)

    hits, misses = counted("hit"), counted("miss")
    assert given(server, "public", mark) == 1
    assert given(server, "public", mark, number=1, seconds=0) == 1
    modern_one = modern(server.url, "tools/call", {"name": "public", "arguments": {"seconds": 0, "mark": mark}})
    assert modern_one.json()["result"]["structuredContent"] == {"result": 1}
    assert given(server, "public", mark, number=2) == 2
    assert (counted("hit") - hits, counted("miss") - misses) == (2, 2)
    assert call(server.url, "public", {"mark": mark, "number": "x"})["isError"]
    assert ran(server, mark) == 2


def test_a_cached_model_has_the_same_reply(server: Server, mark: str) -> None:
    """The reply with a cached result has exactly the bytes of the first reply."""
    asked = {"name": "report", "arguments": {"mark": mark}}
    first, second = (legacy(server.url, "tools/call", asked).content for _ in range(2))
    assert first == second
    assert ran(server, mark) == 1


def test_errors_are_not_cached(server: Server, mark: str) -> None:
    """The cache stores no error, no ToolResult (which may be an error) and no value that is not JSON."""
    assert [text(call(server.url, "fails", {"mark": mark})) for _ in range(2)] == ["run 1", "run 2"]
    assert [text(call(server.url, "replies", {"mark": mark})) for _ in range(2)] == ["3", "4"]
    for _ in range(2):
        assert call(server.url, "picture", {"mark": mark})["content"][0]["type"] == "image"
    assert ran(server, mark) == 6


def test_equal_calls_share_a_run(server: Server, mark: str) -> None:
    """Equal calls at the same time share one run and its failure. A tool that tries to exit fails only its call."""
    with ThreadPoolExecutor(20) as threads:
        calls = [threads.submit(call, server.url, "fails", {"mark": mark, "gated": True}) for _ in range(20)]
        try:
            until(lambda: Scrape(server.url).value("mcp_requests_in_flight") >= 20, "all calls arrived")
        finally:
            call(server.url, "open_gate", {"mark": mark})
        found = [text(each.result()) for each in calls]
    assert set(found) == {"run 1"}
    assert text(call(server.url, "fails", {"mark": mark})) == "run 2"
    assert text(call(server.url, "exits", {"mark": mark})) == "Error calling tool 'exits'"
    assert given(server, "public", mark) == 4


def test_a_tool_that_takes_too_long(server: Server, mark: str) -> None:
    """A cached tool that exceeds its timeout fails as usual, and later calls do not wait for the old run."""
    for expected in (1, 2):
        assert "0.3 s" in text(call(server.url, "slow", {"mark": mark}))
        assert ran(server, mark) == expected


def test_a_stale_result_is_served_during_its_renewal(server: Server, mark: str) -> None:
    """A stale result is served during its renewal and after a failed renewal, which is logged."""
    assert given(server, "stale", mark, fail_from=3) == 1
    until(lambda: given(server, "stale", mark, fail_from=3) == 2, "the result is renewed")
    until(
        lambda: given(server, "stale", mark, fail_from=3) == 2 and ran(server, mark) >= 3,
        "the tool runs a third time and the old result is still served",
    )
    failed = "tool 'stale': the cached result could not be renewed"
    until(lambda: failed in server.output, "the log reports the failed renewal")


def test_memory_is_limited(server: Server, mark: str) -> None:
    """The cache drops the least recently used results and does not store a result beyond its size."""
    lengths = [6_000, 6_001, 6_002, 6_003]
    for length in lengths:
        given(server, "long_text", mark, length=length)
    assert Scrape(server.url).value("mcp_cache_bytes") <= 20_000
    assert given(server, "long_text", mark, length=lengths[-1]).startswith("4 ")
    assert given(server, "long_text", mark, length=lengths[0]).startswith("5 ")
    for expected in ("6 ", "7 "):
        assert given(server, "long_text", mark, length=30_000).startswith(expected)


def test_callers_do_not_share_results(start_server: StartServer, tmp_path: Path) -> None:
    """Callers share a cached result only if the tool's author has set the scope "public"."""
    (tmp_path / "runs").touch()
    keys = tmp_path / "keys"
    made = [letter * 40 for letter in "ab"]
    keys.write_text("".join(json.dumps({"id": key[0], "hash": hash_of(key)}) + "\n" for key in made))
    settings = {"MCP_COMPONENTS": PACK, "RUNS": str(tmp_path / "runs")}
    server = start_server(**settings, AUTH_ENABLED="true", API_KEYS_FILE=str(keys))

    def asked(tool: str, key: str) -> Any:
        params = {"name": tool, "arguments": {"mark": tool}}
        reply = legacy(server.url, "tools/call", params, Authorization=f"Bearer {key}")
        return reply.json()["result"]["structuredContent"]["result"]

    one, other = made
    assert [asked("own", key) for key in (one, other, one, other)] == [1, 2, 1, 2]
    assert [asked("public", key) for key in (one, other)] == [1, 1]

"""Tests that both paths give the same answer for each tool and run each tool once."""

from collections.abc import Callable
from typing import Any, get_args

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.calls import ENVELOPE, VERSION, request
from tests.damage.messages import VERSIONS
from tests.damage.wire import Request
from tests.mcp.paths.asked import HANDSHAKE, WARNINGS, called, sent
from tests.mcp.paths.both import Pair
from tests.mcp.paths.looks import WISHES
from tests.mcp.paths.tools import (
    ARGUMENTS,
    CONTEXTS,
    FAILING,
    NEVER_BEGUN,
    PLAIN,
    SHIPPED,
    TOOLS,
    UNUSUAL,
    VALID,
    WITHOUT_RESULT,
    WRONG,
)
from tests.packs.results import failing

pytestmark = WARNINGS


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_gets_one_answer(pair: Pair, tool: str, version: str) -> None:
    """Both paths give the same answer for each tool with valid arguments, and no tool runs twice."""
    gets_one_answer(pair, tool, version)


@pytest.mark.slow
@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_gets_one_answer_within_middleware(pair_within: Pair, tool: str, version: str) -> None:
    """So they do if the server has middleware."""
    gets_one_answer(pair_within, tool, version)


def gets_one_answer(servers: Pair, tool: str, version: str) -> None:
    """Call a tool on both paths, and compare the answers."""
    answer = servers.check(called(tool, VALID.get(tool), version))
    calls_others = tool.startswith("calls") or tool in ("injected_from_another", "injected_around_another")
    assert all(times == 1 or calls_others for times in answer.runs.values())
    assert answer.runs.get(f"tool {tool!r}") or tool in NEVER_BEGUN
    if tool not in (*FAILING, *WITHOUT_RESULT):
        assert not answer.message["result"].get("isError")


@pytest.mark.slow
@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_gets_one_answer_through_another(pair: Pair, tool: str, version: str) -> None:
    """Both paths give the same answer for a tool that returns the result or failure of another tool."""
    answer = pair.check(called("calls_another", {"name": tool, "arguments": VALID.get(tool, {})}, version))
    assert answer.runs["tool 'calls_another'"] <= 2


@pytest.mark.slow
@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("tool", [*SHIPPED, "picture", "result", "asks", *FAILING, *CONTEXTS])
def test_each_interference_of_a_middleware_gets_one_answer(pair_within: Pair, tool: str, wish: str) -> None:
    """Middleware that answers, calls another tool, retries or replaces a result gets one answer on both paths."""
    answer = pair_within.check(called(tool, {**VALID.get(tool, {}), "wish": wish}))
    ran = answer.runs.get(f"tool '{tool}'", 0) > 0
    assert ran == (wish not in ("own answer", "another name") and tool not in NEVER_BEGUN)
    pair_within.check(called(tool, {"wish": wish, "unknown": 1}))


@pytest.mark.parametrize("depth", [2, 60, 120, 190, 197, 253, 254, 255, 300, 1000])
@pytest.mark.parametrize("tool", ["gives_anything", "gives_items", "gives_undeclared"])
def test_depth_gets_one_answer(pair: Pair, tool: str, depth: int) -> None:
    """Both paths answer nested JSON of any depth alike, although each reader and writer has its own limit."""
    usual = called(tool)
    for value in (b"[" * depth + b"]" * depth, b'[{"a":' * (depth // 2) + b"1" + b"}]" * (depth // 2)):
        deep = usual.body.replace(b'"arguments": {}', b'"arguments": {"value": ' + value + b"}")
        assert pair.check(Request(deep, usual.headers)).status in (200, 400)


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
@pytest.mark.parametrize("version", [HANDSHAKE_PROTOCOL_VERSIONS[0], HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", ["reports", "reports_without_parameter", "reports_and_fails", "reports_injected"])
def test_reports_get_one_answer(pair: Pair, tool: str, version: str, accept: str) -> None:
    """Both paths send the same messages before the result to a client that accepts event streams."""
    for token in (None, 0, "token"):
        for level in (None, "debug", "info", "warning", "error"):
            meta: dict[str, Any] = dict(ENVELOPE) if version == VERSION else {}
            if token is not None:
                meta["progressToken"] = token
            if level is not None:
                meta["io.modelcontextprotocol/logLevel"] = level
            answer = pair.check(sent(request("tools/call", {"name": tool, "_meta": meta}), version, accept=accept))
            if accept == "application/json":
                assert len(answer.messages) == 1


_PREFIX = "io.modelcontextprotocol/"
_SHAPES: list[Callable[[Any], dict[str, Any]]] = [
    lambda value: {f"{_PREFIX}clientCapabilities": {"roots": {"listChanged": value}}},
    lambda value: {f"{_PREFIX}clientCapabilities": {"experimental": {"a": {"b": value}}}},
    lambda value: {f"{_PREFIX}clientInfo": {"name": "n", "version": "1", "icons": value}},
    lambda value: {f"{_PREFIX}clientInfo": {"name": "n", "version": "1", "title": value}},
    lambda value: {"com.example/own": value},
]


@pytest.mark.parametrize("shape", _SHAPES)
def test_envelopes_with_equal_values_are_not_confused(pair: Pair, shape: Callable[[Any], dict[str, Any]]) -> None:
    """The cache of valid envelopes does not confuse 1 with True, which are equal in Python."""
    for first in (True, 1, 1.0):
        for then in (True, 1, 1.0, 0, False):
            pair.fast.forget()
            for value in (first, then):
                asked = called("context_at_large", None, VERSION, **shape(value))
                assert pair.fast_answer(asked)[0] == pair.full_answer(asked)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "tool", ["text_unicode", "number_huge", "mapping", "town", "nothing", "linked", "sound", "fails"]
)
def test_each_version_gets_one_answer(pair: Pair, tool: str, version: str | None) -> None:
    """Both paths give the same answer in each protocol version, although results differ between versions."""
    pair.check(called(tool, None, version))


def test_the_pack_is_served_and_planned(pair: Pair, pair_within: Pair) -> None:
    """Each tool of the pack has the expected path, so that the FastMCP path is not compared with itself."""
    fast = pair.fast.paths.plans.paths
    assert set(fast) >= set(TOOLS)  # a clone in which somebody tries it has more
    assert {fast[tool] for tool in [*SHIPPED, *PLAIN, *UNUSUAL, *WRONG, *ARGUMENTS]} == {"fast"}
    assert {fast[tool] for tool in CONTEXTS} == {"fast", "fast, with Context or dependencies"}
    assert set(pair_within.fast.paths.plans.paths.values()) == {"fast, with middleware Looks"}
    assert pair.fast.paths.plans.cacheable
    assert not pair.full.paths.plans.tools
    assert not pair.full.paths.plans.cacheable


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", [*SHIPPED, *PLAIN, *ARGUMENTS, *sorted(set(CONTEXTS) - {"calls_another"})])
def test_the_fast_path_answers_usual_results_alone(pair: Pair, tool: str, version: str) -> None:
    """The fast path answers a usual result without the FastMCP path. The second server uses only the FastMCP path."""
    _, took = pair.fast_answer(called(tool, VALID.get(tool), version))
    assert took == 0
    if tool not in VALID:
        for given in ({"arguments": None}, {}):
            meta = ENVELOPE if version == VERSION else {}
            assert (
                pair.fast_answer(sent(request("tools/call", {"name": tool, "_meta": meta, **given}), version))[1] == 0
            )
    before = pair.full.full_answers
    pair.full_answer(called(tool, VALID.get(tool), version))
    assert pair.full.full_answers == before + 1


@pytest.mark.parametrize("tool", [*UNUSUAL, *WRONG, *FAILING])
def test_an_unusual_end_is_handed_over_once(pair: Pair, tool: str) -> None:
    """The fast path passes a call on to the FastMCP path at most once."""
    _, took = pair.fast_answer(called(tool, VALID.get(tool)))
    assert took <= 1


_REASONS = {
    "not_the_shape": "sides: 'sides' is a required property",
    "not_the_shapes": "result.1.sides: 'four' is not of type 'integer'",
    "not_in_the_box": "shape.sides: 'sides' is a required property",
    "not_one_of": "result: 'c' is not one of ['a', 'b']",
    "not_in_range": "result: -1 is less than the minimum of 0",
    "not_a_list": "list is not a JSON object",
    "not_there": "result: None is not of type 'integer'",
    "not_structured": "it has no structured content",
    "not_of_the_protocol": "sum: 'sum' is a required property",
    "declared_otherwise": "sum: 'sum' is a required property",
    "not_what_it_says": "result: 'seven' is not of type 'integer'",
    "not_text_as_it_says": "result: 7 is not of type 'string'",
    "declared_but_number": "int is not a JSON object",
    "declared_but_text": "str is not a JSON object",
    "declared_but_nothing": "it has no structured content",
    "result_structured_despite_schema": "other: 'kind' is not of type 'integer'",
}

_FAULTS = {
    "not_a_number": "value: NaN is not a JSON number",
    "not_numbers": "0.value: Infinity is not a JSON number",
    "not_numbers_within": "1.b: Infinity is not a JSON number",
    "not_numbers_in_a_list": "0: NaN is not a JSON number",
    "not_numbers_undeclared": "b: -Infinity is not a JSON number",
}


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", WRONG)
def test_a_wrong_result_is_an_error(pair: Pair, pair_within: Pair, tool: str, version: str) -> None:
    """A result against its output schema, or without a JSON form, is an error with the tool and the field."""
    if tool in _REASONS:
        reason = f"that does not match its output schema: {_REASONS[tool]}"
    else:
        reason = f"that cannot be written as JSON: {_FAULTS[tool]}"
    for servers in (pair, pair_within):
        result = servers.check(called(tool, None, version)).message["result"]
        assert result["isError"]
        assert result["content"][0]["text"] == f"tool {tool!r} returned a value {reason}"


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping"])
def test_a_list_is_made_once(pair: Pair, method: str) -> None:
    """The second request for a list gets the cached reply."""
    pair.fast.forget()
    asked = request(method, {"_meta": ENVELOPE})
    for version in (HANDSHAKE, VERSION) if method != "ping" else (HANDSHAKE,):
        pair.fast_answer(sent(asked, version))
        answer, took = pair.fast_answer(sent(asked, version))
        assert took == 0
        assert answer == pair.full_answer(sent(asked, version))


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("end", get_args(failing.End))
@pytest.mark.parametrize("tool", ["counts", "counts_in_a_thread"])
def test_a_body_runs_once_however_it_ends(pair: Pair, pair_within: Pair, tool: str, end: str, version: str) -> None:
    """A tool's body runs once on each path, however it ends. The tool itself counts its runs."""
    for servers in (pair, pair_within):
        failing.RUNS.clear()
        fast, _ = servers.fast_answer(called(tool, {"key": "fast", "end": end}, version))
        full = servers.full_answer(called(tool, {"key": "full", "end": end}, version))
        assert failing.RUNS == {"fast": 1, "full": 1}
        assert fast == full


def test_a_body_does_not_run_for_wrong_arguments(pair: Pair, pair_within: Pair) -> None:
    """A tool's body does not run for invalid arguments, even if both paths check them."""
    for servers in (pair, pair_within):
        failing.RUNS.clear()
        answer = servers.check(called("counts", {"key": "key", "end": "no such end"}))
        assert answer.message["result"]["isError"] is True
        assert not failing.RUNS

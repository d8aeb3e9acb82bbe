"""Tests of the spans of requests: their parents and content, equal on both paths."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from conftest import Server, until
from tests.calls import FULL, HEADERS, get, post, request
from tests.replicas import Family
from tests.sessions.client import AskedClient, start
from tests.tracing.calls import Caller, call, echo
from tests.tracing.collector import Collector, Span

FAMILIES: tuple[Family, ...] = ("handshake", "stateless")
UNLIKE = {"mcp.session.id"}
"""Attributes with values that FastMCP generates for each request on the FastMCP path."""


def about(span: Span) -> dict[str, Any]:
    """Return a span without the parts that differ between two calls."""
    attributes = {name: value for name, value in span["attributes"].items() if name not in UNLIKE}
    return {"name": span["name"], "kind": span["kind"], "status": span["status"], "attributes": attributes}


@pytest.mark.parametrize("where", ["header", "_meta", "both"])
@pytest.mark.parametrize("path", ["fast", "fastmcp"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_beneath_its_caller(traced: Server, collector: Collector, family: Family, path: str, where: str) -> None:
    """A call is beneath its request, beneath its caller's span, which the header names before `_meta`.

    Its spans name the server and the replica.
    """
    caller, other = Caller(), Caller()
    meta: dict[str, Any] = {} if path == "fast" else dict(FULL)
    if where != "header":
        meta["traceparent"] = (caller if where == "_meta" else other).traceparent
    header = caller.traceparent if where != "_meta" else ""
    reply = call(traced.url, family, "tools/call", echo(), header=header, **meta)
    assert reply.json()["result"]["content"][0]["text"] == "x"

    edge, beneath = collector.trace(caller.trace)
    assert (edge["name"], edge["kind"], edge["parent"]) == ("POST /mcp", "SERVER", caller.span)
    assert (beneath["name"], beneath["kind"], beneath["parent"]) == ("tools/call echo", "SERVER", edge["id"])
    assert edge["attributes"]["anyreplica.path"] == path
    assert edge["attributes"]["http.response.status_code"] == 200
    assert edge["attributes"]["http.response.header.x-request-id"] == [reply.headers["X-Request-ID"]]
    assert edge["nanoseconds"] >= beneath["nanoseconds"] > 0
    assert beneath["attributes"]["gen_ai.tool.name"] == "echo"
    for span in (edge, beneath):
        assert (span["of"]["service.name"], span["of"]["service.instance.id"]) == ("sparrow", "sparrow-1")
        assert span["of"]["authorization"] == "Bearer hush"  # the collector's password is sent, but not shown
        assert "hush" not in str(span["attributes"])


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", echo()),
        ("tools/call", echo(repeat=11)),
        ("tools/call", {"name": "break_down", "arguments": {}}),
        ("tools/list", {}),
        ("prompts/list", {}),
        ("ping", {}),
    ],
)
def test_both_paths_make_one_span(traced: Server, collector: Collector, method: str, params: dict[str, Any]) -> None:
    """Both paths make one span per call, with the same name and attributes."""
    found = []
    for meta in ({}, FULL):
        caller = Caller()
        call(traced.url, "handshake", method, params, header=caller.traceparent, **meta)
        _, beneath = collector.trace(caller.trace)
        found.append(about(beneath))
    assert found[0] == found[1]


def test_spans_name_the_session(tmp_path: Path, collector: Collector) -> None:
    """With sessions, both paths note FastMCP's `mcp.session.id`: the session's key, and not the id that clients send.

    An invalid session id is not noted.
    """

    def noted(client: AskedClient, method: str, params: dict[str, Any]) -> str:
        caller = Caller()
        headers = {**client.headed(), "traceparent": caller.traceparent}
        assert post(server.url, json=request(method, params), headers=headers).status_code == 200
        spans = collector.trace(caller.trace)
        assert client.session not in str(spans)
        return str(spans[-1]["attributes"].get("mcp.session.id", ""))

    with Server(tmp_path / "log", HANDSHAKE_SESSIONS="full", **collector.settings) as server:
        one, other = start(server.url), start(server.url)
        asked: list[tuple[str, dict[str, Any]]] = [("tools/call", echo()), ("tools/list", {})]
        keys = [noted(one, method, {**params, **meta}) for method, params in asked for meta in ({}, {"_meta": FULL})]
        assert len(set(keys)) == 1
        assert keys[0]
        assert noted(other, *asked[0]) not in ("", keys[0])
        assert noted(AskedClient("unknown"), *asked[0]) == ""


@pytest.mark.parametrize("params", [echo(repeat=11), {"name": "break_down", "arguments": {}}], ids=["echo", "crash"])
def test_a_tools_error_is_marked(traced: Server, collector: Collector, params: dict[str, Any]) -> None:
    """A tool's error marks the call's span; the request's span, which succeeded, only has the error's type."""
    caller = Caller()
    call(traced.url, "stateless", "tools/call", params, header=caller.traceparent)
    edge, beneath = collector.trace(caller.trace)
    assert (beneath["status"], beneath["attributes"]["error.type"]) == ("ERROR", "tool_error")
    assert [event["name"] for event in beneath["events"]] == ["exception"]
    assert (edge["status"], edge["attributes"]["error.type"]) == ("UNSET", "tool_error")


def test_a_refused_request_has_a_span(traced: Server, collector: Collector) -> None:
    """Invalid JSON, an unknown URL, HTTP method or JSON-RPC method: each refused request has a span."""
    caller = Caller()
    headers = {**HEADERS, "traceparent": caller.traceparent}
    assert post(traced.url, content=b"{", headers=headers).status_code == 400
    assert get(f"{traced.url}/nowhere?token=hush", headers=headers).status_code == 404
    assert httpx.request("PROPFIND", f"{traced.url}/version", headers=headers).status_code == 405
    assert call(traced.url, "stateless", "no/such", header=caller.traceparent).status_code == 404

    known, *_ = spans = collector.trace(caller.trace, 4)
    assert known["parent"] == caller.span
    told = [(span["name"], span["attributes"].get("http.response.status_code"), span["status"]) for span in spans]
    assert sorted(told, key=str) == [
        ("GET", 404, "UNSET"),
        ("HTTP /version", 405, "UNSET"),
        ("POST /mcp", 400, "UNSET"),
        ("POST /mcp", 404, "UNSET"),
        ("no/such", None, "ERROR"),
    ]


def test_without_a_caller_each_request_is_a_trace(traced: Server, collector: Collector) -> None:
    """Without a valid parent span, each request begins its own trace."""
    for header in ("", "00-0-0-00", "x" * 5000):
        meta: Any = {"traceparent": header or 7}
        reply = call(traced.url, "handshake", "tools/call", echo(), header=header, **meta)
        mark = [reply.headers["X-Request-ID"]]
        (edge,) = collector.find(
            lambda span: span["attributes"].get("http.response.header.x-request-id") == mark,  # noqa: B023
            "the span of the request",
        )
        assert edge["parent"] == ""
        assert len(collector.trace(edge["trace"])) == 2


def test_spans_have_no_values_of_wrong_arguments(traced: Server, collector: Collector) -> None:
    """Spans name wrong arguments, as the log does, without their values, which FastMCP's error quotes."""
    for meta in ({}, FULL):
        caller = Caller()
        params = {"name": "add", "arguments": {"a": "a-secret-value", "b": 1}}
        call(traced.url, "handshake", "tools/call", params, header=caller.traceparent, **meta)
        call(traced.url, "handshake", "tools/list", {"cursor": ["a-secret-value"]}, header=caller.traceparent, **meta)
        spans = collector.trace(caller.trace, 2)
        assert [span["status"] for span in spans if span["name"] != "POST /mcp"] == ["ERROR", "ERROR"]
        assert "a-secret-value" not in json.dumps(spans)


@pytest.mark.parametrize("meta", [{}, FULL])
def test_a_lone_surrogate_costs_no_other_span(traced: Server, collector: Collector, meta: dict[str, Any]) -> None:
    """A lone surrogate in the text of a span is replaced, so that no span is lost."""
    caller = Caller()
    params = {"name": "name_oddly", "arguments": {}}
    call(traced.url, "handshake", "tools/call", params, header=caller.traceparent, **meta)
    _, beneath = collector.trace(caller.trace)
    assert beneath["why"].startswith("no file ?")


def test_the_traces_id_is_in_the_log(traced: Server) -> None:
    """Each log line of a request contains the id of its trace, and so does the access log."""
    caller = Caller()
    for meta in ({}, FULL):
        params = {"name": "say", "arguments": {"words": caller.span}}
        call(traced.url, "stateless", "tools/call", params, traceparent=caller.traceparent, **meta)
    until(lambda: traced.output.count(caller.trace) >= 4, "four log lines contain the id of the trace")
    lines = [json.loads(line) for line in traced.output.splitlines() if caller.trace in line]
    assert [line["logger"] for line in lines] == ["tests.packs.telling", "anyreplica.access"] * 2
    assert {line["trace_id"] for line in lines} == {caller.trace}
    assert all(line["request_id"] for line in lines)


def test_probes_have_no_span(traced: Server, collector: Collector) -> None:
    """Probes and a replica's own checks have no span. A span has the name of its route, as paths have no limit."""
    caller = Caller()
    for path in ("/healthz", "/readyz", "/version"):
        assert get(f"{traced.url}{path}", headers={"traceparent": caller.traceparent}).status_code == 200
    (span,) = collector.trace(caller.trace)
    assert (span["name"], span["attributes"]["http.route"]) == ("GET /version", "/version")
    assert span["attributes"]["url.path"] == "/version"
    assert not [each for each in collector.spans if not each["parent"] and each["scope"] == "fastmcp"]

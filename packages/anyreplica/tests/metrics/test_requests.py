"""Tests of the metrics of requests."""

import socket
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anyreplica.features.metrics.feature import RequestMetrics
from anyreplica.http.request_record import RECORD, new_record
from conftest import StartServer, until
from tests.calls import HEADERS, get, legacy, modern, post
from tests.damage.wire import handshake
from tests.metrics.page import Scrape

TOTAL = "mcp_requests_total"


def test_each_kind_of_request_is_counted(start_server: StartServer) -> None:
    """Requests are counted by method, tool, protocol, path and outcome. Probes and scrapes are not counted."""
    server = start_server(MAX_BODY_BYTES="4096")
    for family in (legacy, modern):
        family(server.url, "tools/call", {"name": "echo", "arguments": {"message": "x"}})
        family(server.url, "tools/call", {"name": "echo", "arguments": {"message": "x", "repeat": 11}})
        family(server.url, "tools/call", {"name": "made-up"})
        family(server.url, "tools/list")
        family(server.url, "resources/read", {"uri": "template://about"})
        family(server.url, "made/up")
    post(server.url, content=b"x" * 5000, headers=HEADERS)
    for path in ("/healthz", "/readyz", "/metrics", "/version"):
        get(server.url + path)
    found = Scrape(server.url)
    counted = {
        tuple(sample.labels[name] for name in ("method", "tool", "protocol", "path", "outcome")): sample.value
        for sample in found.samples
        if sample.name == TOTAL
    }
    per_family = {
        ("tools/call", "echo", "fast", "ok"): 1,
        ("tools/call", "echo", "fastmcp", "tool_error"): 1,
        ("tools/list", "", "fast", "ok"): 1,
        ("resources/read", "", "fastmcp", "ok"): 1,
        ("other", "", "fastmcp", "rpc_error"): 1,
    }
    expected = {
        (method, tool, family, path, outcome): count
        for (method, tool, path, outcome), count in per_family.items()
        for family in ("handshake", "stateless")
    }
    assert counted == expected | {
        ("tools/call", "unknown", "handshake", "fastmcp", "tool_error"): 1,
        ("tools/call", "unknown", "stateless", "fastmcp", "tool_error"): 1,
        ("http", "", "", "", "refused"): 1,
        ("http", "", "", "", "ok"): 1,
    }
    assert found.value("mcp_refused_total", reason="size") == 1
    assert found.value("mcp_request_duration_seconds_count", method="tools/call", tool="echo") == 4
    assert found.labels("mcp_refused_total", "reason") == {"auth", "draining", "overload", "rate", "size", "slow"}


def test_refused_requests_are_counted(start_server: StartServer) -> None:
    """Refused requests are counted: unknown callers and callers beyond their rate."""
    server = start_server(AUTH_ENABLED="true", AUTH_TOKEN="t" * 40, RATE_LIMIT="1/h", RATE_BURST="1")
    known: dict[str, Any] = {"Authorization": f"Bearer {'t' * 40}"}
    legacy(server.url, "tools/list")
    for _ in range(3):
        legacy(server.url, "tools/list", **known)
    found = Scrape(server.url, **known)
    assert found.value("mcp_refused_total", reason="auth") == 1
    assert found.value("mcp_refused_total", reason="rate") == 2
    assert found.value(TOTAL, method="tools/list", outcome="refused") == 2


def test_a_client_that_disconnects_has_its_own_outcome(start_server: StartServer) -> None:
    """A call whose client disconnects counts as "gone", neither as a success nor as an error."""
    server = start_server(MCP_COMPONENTS="server,tests.packs.waiting")
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(handshake("tools/call", {"name": "wait", "arguments": {"key": "k"}}))
        until(lambda: Scrape(server.url).value("mcp_requests_in_flight") == 1, "the call is in flight")
    until(lambda: Scrape(server.url).value(TOTAL, outcome="gone") == 1, "the call is counted as gone")
    assert Scrape(server.url).value("mcp_requests_in_flight") == 0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(max_size=5) | st.sampled_from(["tools/call", "tools/list", "prompts/get"]),
            st.text(max_size=5) | st.just("echo"),
            st.sampled_from([200, 202, 400, 401, 404, 413, 429, 499, 500, 503]),
            st.sampled_from([None, "tool_error", "rpc_error", "fault"]),
        )
    )
)
def test_nothing_is_lost_and_labels_are_bounded(asked: list[tuple[str, str, int, str | None]]) -> None:
    """Every request is counted, and labels have only known values, whatever clients send."""
    requests = RequestMetrics(lambda: {"echo": ""}, lambda: False)
    count = requests.observer()
    for method, name, status, failed in asked:
        record = new_record({})
        record.called, record.path, record.failed = (method, name), ("stateless", "fast"), failed
        count("", {RECORD: record}, status, 0.01)
    total, _, seconds = requests.collect()
    assert sum(sample.value for sample in total.samples) == len(asked)
    assert sum(sample.value for sample in seconds.samples if sample.name.endswith("_count")) == len(asked)
    labels = Counter(name for sample in total.samples for name in (sample.labels["method"], sample.labels["tool"]))
    assert labels.keys() <= {"tools/call", "tools/list", "prompts/get", "ping", "other", "", "echo", "unknown"}
    assert len(requests._known) <= 200


def test_usual_progress_tokens_stay_on_the_fast_path(start_server: StartServer) -> None:
    """Calls with usual progress tokens stay on the fast path, and unusual tokens take the FastMCP path.

    FastMCP's client sends a new token with each call.
    """
    server = start_server()
    usual: tuple[Any, ...] = (1, 2, "token", None)
    unusual: tuple[Any, ...] = (-1, 1.5, True, "ä", [], 2**60)
    for token in (*usual, *unusual):
        params = {"name": "echo", "arguments": {"message": "x"}, "_meta": {"progressToken": token}}
        legacy(server.url, "tools/call", params)
    paths: Counter[str] = Counter()
    for sample in Scrape(server.url).samples:
        if sample.name == TOTAL:
            paths[sample.labels["path"]] += int(sample.value)
    assert paths == {"fast": len(usual), "fastmcp": len(unusual)}

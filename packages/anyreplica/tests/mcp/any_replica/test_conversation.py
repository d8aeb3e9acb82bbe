"""Tests of one conversation in which a different replica answers each request."""

import itertools
from collections.abc import Iterator

import httpx
import pytest

from tests.calls import HEADERS, legacy, modern, post, text
from tests.mcp.any_replica.rounds import ROUNDS, rounds
from tests.replicas import Family, Fleet

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
CLIENT = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def conversation(url: str, family: Family, **headers: str) -> Iterator[httpx.Response]:
    """Send a request of each kind and yield the replies."""
    send = legacy if family == "handshake" else modern
    reference = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    for method, params in (
        ("tools/list", {}),
        ("tools/call", {"name": "echo", "arguments": {"message": "hello"}}),
        ("tools/call", {"name": "test_logging_tool", "arguments": {}}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "test://static-text"}),
        ("resources/read", {"uri": "test://template/7/data"}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}}),
        ("completion/complete", {"ref": reference, "argument": {"name": "arg1", "value": "par"}}),
    ):
        yield send(url, method, params, **headers)


def check(replies: list[httpx.Response]) -> None:
    """Check that all replies are results without a session and that no replica answers two requests in a row."""
    for reply in replies:
        assert reply.status_code == 200, reply.text
        assert "result" in reply.json()
        assert "mcp-session-id" not in reply.headers
    served = [reply.headers["x-served-by"] for reply in replies]
    assert all(one != other for one, other in itertools.pairwise(served))
    assert set(served) == {"replica-1", "replica-2", "replica-3"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handshake_holds_on_every_replica(fleet: Fleet, version: str) -> None:
    """All replicas serve a client after its handshake with one of them. It announces no change notifications."""
    opened = legacy(fleet.url, "initialize", {"protocolVersion": version, **CLIENT})
    assert opened.json()["result"]["protocolVersion"] == version
    assert opened.json()["result"]["serverInfo"] == {"name": "template-mcp", "version": "0.1.0"}
    capabilities = opened.json()["result"]["capabilities"]
    assert not any(capabilities[kind].get("listChanged") for kind in ("tools", "prompts", "resources"))
    assert not capabilities["resources"].get("subscribe")
    spoken = {"MCP-Protocol-Version": version}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    done = post(fleet.url, json=initialized, headers={**HEADERS, **spoken})
    assert done.status_code == 202
    assert {opened.headers["x-served-by"], done.headers["x-served-by"]} < {"replica-1", "replica-2", "replica-3"}
    check([opened, *conversation(fleet.url, "handshake", **spoken), legacy(fleet.url, "ping", {}, **spoken)])


@pytest.mark.parametrize("version", ["2099-01-01", "2026-07-28", "1.0", ""])
def test_an_unknown_version_gets_the_newest_handshake_version(fleet: Fleet, version: str) -> None:
    """An unsupported version gets the newest one of the handshake protocol (MCP: "Version Negotiation")."""
    opened = legacy(fleet.url, "initialize", {"protocolVersion": version, **CLIENT})
    assert opened.json()["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("session", ["made-up", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "!", "x" * 4000])
def test_a_session_id_of_another_server_is_not_refused(fleet: Fleet, session: str) -> None:
    """A replica ignores the session id that a client still has from the server that was here before."""
    check(list(conversation(fleet.url, "handshake", **{"Mcp-Session-Id": session})))


@pytest.mark.needs("redis")
@pytest.mark.parametrize(("tool", "answer"), ROUNDS.items())
def test_another_replica_continues_the_call_of_a_tool(
    fleet: Fleet, fleet_with_redis: Fleet, tool: str, answer: str
) -> None:
    """One replica asks a tool's question, and another one continues the call, with or without Redis."""
    for replicas in (fleet, fleet_with_redis):
        result, count = rounds(replicas.urls, "tools/call", {"name": tool, "arguments": {}})
        assert text(result) == answer
        assert count == (3 if tool.endswith("multi_round") else 2)


def test_another_replica_continues_the_request_of_a_prompt(fleet: Fleet) -> None:
    """One replica asks a prompt's question and another replica continues the request."""
    result, count = rounds(fleet.urls, "prompts/get", {"name": "test_input_required_result_prompt"})
    assert result["messages"][0]["content"]["text"] == "Use this context: tea"
    assert count == 2


def test_the_stateless_protocol_needs_no_replica_twice(fleet: Fleet) -> None:
    """With the stateless protocol, any replica can answer the first request and every later request."""
    check([modern(fleet.url, "server/discover"), *conversation(fleet.url, "stateless")])

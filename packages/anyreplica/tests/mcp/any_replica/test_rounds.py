"""Tests of calls with several rounds in which each round may reach a different replica."""

import pytest

from tests.calls import text
from tests.mcp.any_replica.rounds import ROUNDS, rounds
from tests.replicas import Fleet


@pytest.mark.needs("redis")
@pytest.mark.parametrize(("tool", "answer"), ROUNDS.items())
def test_another_replica_continues_the_call_of_a_tool(
    fleet: Fleet, fleet_with_redis: Fleet, tool: str, answer: str
) -> None:
    """One replica asks a tool's question and another replica continues the call.

    The first replica keeps no state of the call. With Redis, each request state is valid for one use.
    """
    for replicas in (fleet, fleet_with_redis):
        result, count = rounds(replicas.urls, "tools/call", {"name": tool, "arguments": {}})
        assert text(result) == answer
        assert count == (3 if tool.endswith("multi_round") else 2)


def test_another_replica_continues_the_request_of_a_prompt(fleet: Fleet) -> None:
    """One replica asks a prompt's question and another replica continues the request."""
    result, count = rounds(fleet.urls, "prompts/get", {"name": "test_input_required_result_prompt"})
    assert result["messages"][0]["content"]["text"] == "Use this context: tea"
    assert count == 2

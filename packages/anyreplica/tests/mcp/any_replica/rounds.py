"""A helper that makes calls of several rounds."""

from typing import Any

import pytest

from tests.calls import modern

ROUNDS = {
    "test_input_required_result_elicitation": "Hello, Ada!",
    "test_input_required_result_sampling": "Paris",
    "test_input_required_result_list_roots": "file:///work",
    "test_input_required_result_request_state": "state-ok",
    "test_input_required_result_multiple_inputs": "Ada: Paris (file:///work)",
    "test_input_required_result_multi_round": "Ada likes blue.",
}

FORM = {"action": "accept", "content": {"name": "Ada", "color": "blue", "ok": True, "context": "tea"}}
MODEL = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "test"}
ROOTS = {"roots": [{"uri": "file:///work"}]}
ANSWERS = {"elicitation/create": FORM, "sampling/createMessage": MODEL, "roots/list": ROOTS}


def rounds(urls: list[str], method: str, params: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Answer the questions of a component, each round at the next of `urls`.

    Returns the last result and the number of rounds.
    """
    asked = dict(params)
    for number in range(10):
        reply = modern(urls[number % len(urls)], method, asked)
        assert reply.status_code == 200, reply.text
        result: dict[str, Any] = reply.json()["result"]
        if result["resultType"] != "input_required":
            return result, number + 1
        responses = {key: ANSWERS[each["method"]] for key, each in result["inputRequests"].items()}
        asked = {**params, "inputResponses": responses}
        if "requestState" in result:
            asked["requestState"] = result["requestState"]
    pytest.fail(f"{method} still asks questions after 10 rounds")

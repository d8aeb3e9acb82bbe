"""Tests of the capabilities that a client needs for a request of the server."""

from typing import Any

import pytest
from mcp_types import ClientCapabilities

from anyreplica.features.sessions.client_requests import missing_capability

FORM, URL = {"mode": "form"}, {"mode": "url"}
TOOLS = {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}


@pytest.mark.parametrize(
    ("given", "method", "params", "missing"),
    [
        ({}, "elicitation/create", FORM, "elicitation"),
        ({"elicitation": {}}, "elicitation/create", FORM, ""),
        ({"elicitation": {}}, "elicitation/create", None, ""),
        ({"elicitation": {}}, "elicitation/create", URL, "elicitation.url"),
        ({"elicitation": {"url": {}}}, "elicitation/create", URL, ""),
        ({"elicitation": {"url": {}}}, "elicitation/create", FORM, "elicitation.form"),
        ({"elicitation": {"url": {}, "form": {}}}, "elicitation/create", FORM, ""),
        ({}, "sampling/createMessage", {}, "sampling"),
        ({"sampling": {}}, "sampling/createMessage", {}, ""),
        ({"sampling": {}}, "sampling/createMessage", TOOLS, "sampling.tools"),
        ({"sampling": {}}, "sampling/createMessage", {"toolChoice": {"mode": "auto"}}, "sampling.tools"),
        ({"sampling": {"tools": {}}}, "sampling/createMessage", TOOLS, ""),
        ({}, "roots/list", None, "roots"),
        ({"roots": {}}, "roots/list", None, ""),
        ({}, "ping", None, ""),
    ],
)
def test_the_missing_capability_is_named(given: Any, method: str, params: Any, missing: str) -> None:
    """A request needs the capability of its kind, of its mode, and of its tools."""
    assert missing_capability(ClientCapabilities.model_validate(given), method, params) == missing

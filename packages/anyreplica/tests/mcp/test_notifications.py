"""Notifications of clients in the handshake protocol: they reach middleware, and damaged ones cost no log lines."""

import logging

import pytest
from fastmcp import FastMCP
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext

from anyreplica import Settings, create_app
from anyreplica.testing import replica
from tests.calls import HEADERS


class Seen(Middleware):
    """Middleware that keeps the methods of all messages."""

    def __init__(self) -> None:
        self.methods: list[str | None] = []

    async def on_message(self, context: MiddlewareContext, call_next: CallNext) -> object:
        self.methods.append(context.method)
        return await call_next(context)


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read", "notifications/progress"])
def test_an_invalid_state_in_a_notification_is_not_logged(method: str, caplog: pytest.LogCaptureFixture) -> None:
    """A notification has no state of a request, so an invalid one is ignored, and the middleware still runs."""
    seen = Seen()
    mcp: FastMCP = FastMCP("notified", middleware=[seen])
    message = {"jsonrpc": "2.0", "method": method, "params": {"name": "x", "uri": "x://y", "requestState": "made up"}}
    with replica(lambda: create_app(mcp, Settings(mcp_components=()))) as client:
        reply = client.http.post("/mcp", json=message, headers=HEADERS)
        assert (reply.status_code, reply.content) == (202, b"")
    assert method in seen.methods
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []

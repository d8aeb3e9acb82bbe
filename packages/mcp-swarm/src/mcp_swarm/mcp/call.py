"""One request on its way through the exchange."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY
from starlette.types import Receive, Scope, Send

from mcp_swarm.http.json_replies import send_json
from mcp_swarm.mcp.message import Request
from mcp_swarm.mcp.reply import Reply


@dataclass(slots=True)
class Call:
    """A request that its era's checks have passed, and where its answer goes."""

    request: Request
    version: str
    modern: bool
    """Whether it speaks the stateless era (2026-07-28 and later)."""
    scope: Scope
    receive: Receive
    send: Send
    may_stream: bool
    """Whether the reply may become an event stream."""
    _reply: Reply | None = None

    @property
    def reply(self) -> Reply:
        """What is sent; made when somebody has something to say before the end."""
        if self._reply is None:
            self._reply = Reply(self.send, may_stream=self.may_stream)
        return self._reply

    def finish(self, status: int, message: bytes) -> Awaitable[None]:
        """Send the JSON-RPC response and end the reply."""
        if self._reply is None:
            return send_json(self.send, status, message)
        return self._reply.finish(status, message)

    @property
    def client(self) -> tuple[Any, Any]:
        """What the client tells of itself and of what it is capable of, in the stateless era's envelope."""
        meta = (self.request.params or {}).get("_meta") if self.modern else None
        if not isinstance(meta, dict):
            return None, None
        return meta.get(CLIENT_INFO_META_KEY), meta.get(CLIENT_CAPABILITIES_META_KEY)

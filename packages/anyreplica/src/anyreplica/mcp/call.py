"""A call: one request that passed the checks of its protocol."""

from dataclasses import dataclass
from typing import Any

from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY
from starlette.types import Scope

from anyreplica.mcp.client_channel import STATELESS, ClientChannel
from anyreplica.mcp.message import Request
from anyreplica.mcp.reply import Reply


@dataclass(slots=True)
class Call:
    """What was asked, with the ways back to the client."""

    request: Request
    version: str
    """The protocol version. Opening a session sets it, if the request does not name it."""
    modern: bool
    """Whether the request uses the stateless protocol (2026-07-28 and later)."""
    scope: Scope
    reply: Reply
    """Sends the reply, and waits for it."""
    channel: ClientChannel = STATELESS
    """Sends requests to the client."""

    @property
    def client(self) -> tuple[Any, Any]:
        """The client's information and capabilities from `_meta` in the stateless protocol; otherwise None for both."""
        meta = (self.request.params or {}).get("_meta") if self.modern else None
        if not isinstance(meta, dict):
            return None, None
        return meta.get(CLIENT_INFO_META_KEY), meta.get(CLIENT_CAPABILITIES_META_KEY)

"""Lists of components, encoded once and sent again to all callers who may use the same tools."""

from collections.abc import Awaitable

from mcp_swarm.auth.caller import caller_of
from mcp_swarm.http.responses import encode
from mcp_swarm.mcp.call import Call
from mcp_swarm.mcp.fastmcp_path import FastMcpPath
from mcp_swarm.mcp.protocol_version import Envelopes

CACHED_METHODS = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover", "ping"}
)

_REMEMBERED = 512
"""Replies; more than a few callers with tools of their own make."""

_Asked = tuple[str, str, tuple[str, ...] | None]


class CachedLists:
    """Remembers what the FastMCP path answered to each method in each protocol version, and to whom."""

    def __init__(self, full: FastMcpPath, envelopes: Envelopes) -> None:
        self.full = full
        self.envelopes = envelopes
        self._known: dict[_Asked, bytes] = {}

    def forget(self) -> None:
        """Ask anew: the components have changed. What is being asked now goes into the old dictionary."""
        self._known = {}

    def answer(self, call: Call) -> Awaitable[None]:
        """Answer a request for a list; one that isn't for the whole list, or isn't valid, by the FastMCP path."""
        if not self._asks_for_all(call):
            return self.full.answer(call)
        result = self._known.get(_asked(call))
        if result is None:
            return self._ask(call)
        return call.finish(200, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(call.request.id), result))

    async def _ask(self, call: Call) -> None:
        known = self._known
        try:
            result = await self.full.result(call)
        except Exception:  # noqa: BLE001  # the FastMCP path's to tell
            await self.full.answer(call)
            return
        if len(known) >= _REMEMBERED:
            known.clear()
        known[_asked(call)] = encode(result)
        await self.answer(call)

    def _asks_for_all(self, call: Call) -> bool:
        request = call.request
        params = request.params
        if not params:
            return not call.modern
        meta = params.get("_meta")
        if len(params) > 1 or type(meta) is not dict:
            return False
        return self.envelopes.is_valid(request.method, meta, call.version, request.size)


def _asked(call: Call) -> _Asked:
    caller = caller_of(call.scope)
    return call.request.method, call.version, None if caller is None else caller.tools

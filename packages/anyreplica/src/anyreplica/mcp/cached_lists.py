"""The cached lists: replies of the FastMCP path that are the same for all callers that may use the same tools."""

from collections.abc import Awaitable

from cachetools import FIFOCache

from anyreplica.auth.caller import caller_of
from anyreplica.http.responses import encode
from anyreplica.mcp.call import Call
from anyreplica.mcp.fastmcp_path import FastMcpPath
from anyreplica.mcp.message import Envelopes

CACHED_METHODS = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover", "ping"}
)

_REMEMBERED = 512
"""Maximum number of cached replies. The number of different sets of tools is usually small."""

_Asked = tuple[str, str, tuple[str, ...] | None]


class CachedLists:
    """A cache of the FastMCP path's replies, by method, protocol version and the tools that the caller may use."""

    def __init__(self, fallback: FastMcpPath, envelopes: Envelopes) -> None:
        self.fallback = fallback
        self.envelopes = envelopes
        self.forget()

    def forget(self) -> None:
        """Drop all replies, because the components have changed.

        The cache is replaced, so that a reply that is still in progress goes into the old one.
        """
        self._known: FIFOCache[_Asked, bytes] = FIFOCache(_REMEMBERED)

    def answer(self, call: Call) -> Awaitable[None]:
        """Answer a request for a list. The FastMCP path answers requests for a part of a list and invalid requests.

        Awaiting the reply raises `Refused` if the call's session id is invalid or its session has ended.
        """
        if not call.channel.is_open:
            return self._open_and_answer(call)
        if not self._asks_for_all(call):
            return self.fallback.answer(call)
        result = self._known.get(_asked(call))
        if result is None:
            return self._ask(call)
        return call.reply.finish(200, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(call.request.id), result))

    async def _open_and_answer(self, call: Call) -> None:
        await self.answer(await call.channel.open(call))

    async def _ask(self, call: Call) -> None:
        known = self._known
        try:
            result = await self.fallback.result(call)
        except Exception:  # noqa: BLE001  # the FastMCP path logs and answers the error
            await self.fallback.answer(call)
            return
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

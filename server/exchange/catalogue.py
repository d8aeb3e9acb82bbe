"""Lists of components, encoded once and sent again as long as every caller gets the same."""

from collections.abc import Awaitable

from server.exchange.call import Call
from server.exchange.envelope import Envelopes
from server.exchange.full_lane import FullLane
from server.exchange.wire import encode

METHODS = frozenset(
    {"tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover", "ping"}
)


class Catalogue:
    """Remembers what the full lane answered to each method in each protocol version."""

    def __init__(self, full: FullLane, envelopes: Envelopes) -> None:
        self.full = full
        self.envelopes = envelopes
        self._known: dict[tuple[str, str], bytes] = {}

    def forget(self) -> None:
        """Ask anew: the components have changed."""
        self._known.clear()

    def answer(self, call: Call) -> Awaitable[None]:
        """Answer a request for a list; one that isn't for the whole list, or isn't valid, by the full lane."""
        request = call.request
        if not self._asks_for_all(call):
            return self.full.answer(call)
        result = self._known.get((request.method, call.version))
        if result is None:
            return self._ask(call)
        return call.finish(200, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (encode(request.id), result))

    async def _ask(self, call: Call) -> None:
        try:
            result = await self.full.result(call)
        except Exception:  # noqa: BLE001  # the full lane's to tell
            await self.full.answer(call)
            return
        self._known[call.request.method, call.version] = encode(result)
        await self.answer(call)

    def _asks_for_all(self, call: Call) -> bool:
        params = call.request.params
        if not params:
            return not call.modern
        meta = params.get("_meta")
        # A token may be one that the SDK refuses later, when it looks at params once more.
        if len(params) > 1 or type(meta) is not dict or "progressToken" in meta:
            return False
        request = call.request
        return self.envelopes.is_valid(request.method, meta, call.version, request.size)

"""A load of many clients that need Redis and some that do not, at the same replica."""

import asyncio
import collections
import time
from typing import Any

import httpx

from tests.calls import HEADERS, request

CLIENTS = 120
"""Number of clients that need Redis: more than a replica has places (MAX_IN_FLIGHT is 100)."""
PLAIN = 10
"""Number of clients that call a tool without Redis."""


class MixedLoad:
    """Clients that send requests at the same time: some of a `kind` that needs Redis, as httpx gets them, some not."""

    def __init__(self, url: str, kind: str, method: str, path: str, asked: dict[str, Any]) -> None:
        self.statuses: collections.Counter[str] = collections.Counter()
        """How often the clients of each kind got each status."""
        self._kind = kind
        self._needing = {"method": method, "url": f"{url}{path}", **asked}
        plain = request("tools/call", {"name": "echo", "arguments": {"message": "hi"}})
        self._plain = {"method": "POST", "url": f"{url}/mcp", "json": plain, "headers": HEADERS}

    async def run(self, seconds: float) -> None:
        """Send requests for some seconds, and count their statuses anew."""
        self.statuses.clear()
        until = time.monotonic() + seconds
        needing = (self._send(self._kind, self._needing, 0.8, until, n / CLIENTS) for n in range(CLIENTS))
        plain = (self._send("plain", self._plain, 0.1, until, n / 100) for n in range(PLAIN))
        await asyncio.gather(*needing, *plain)

    async def _send(self, kind: str, asked: dict[str, Any], pause: float, until: float, first: float) -> None:
        await asyncio.sleep(first)
        # A client for each caller: one for all would need more CPU time than the replica.
        async with httpx.AsyncClient(verify=False, timeout=60) as http:
            while time.monotonic() < until:
                reply = await http.request(**asked)
                failed = " with an error" if '"isError":true' in reply.text else ""
                self.statuses[f"{kind} {reply.status_code}{failed}"] += 1
                await asyncio.sleep(pause)

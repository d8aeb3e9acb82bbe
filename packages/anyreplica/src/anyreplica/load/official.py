"""A client of the load test that uses the MCP SDK; it measures the cost of the SDK, not the limit of the server."""

import asyncio
from collections.abc import Mapping

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from anyreplica.load.client import REFUSED_PAUSE
from anyreplica.load.message import Family
from anyreplica.load.run import LoadRun
from anyreplica.signing.httpx_auth import Signed

_NAME = "tools/call echo (SDK)"
_MODES = {Family.LEGACY: "legacy", Family.MODERN: Family.MODERN.value}


class SdkClient:
    """A client that connects with the MCP SDK and calls echo repeatedly.

    Args:
        run: The run that this client belongs to.
        headers: Headers of each request, in addition to those of the SDK.
        auth: Signs each request; None: the requests are not signed.
    """

    connection = None
    """Always None: the SDK's client manages its connections."""

    def __init__(self, run: LoadRun, headers: Mapping[str, str], auth: Signed | None = None) -> None:
        self._run = run
        self._headers = dict(headers)
        self._auth = auth
        self._number = next(run.connection_numbers)
        self._family = run.load.families[self._number % len(run.load.families)]
        self._replica = ""

    async def work(self) -> None:
        """Send requests until the run is over.

        An error that breaks the SDK's client counts as a failure. Then this method makes a new SDK client.
        """
        run = self._run
        while not run.over:
            begun = run.now
            http = httpx2.AsyncClient(
                headers=self._headers,
                auth=self._auth,
                event_hooks={"response": [self._note]},
                timeout=run.load.patience,
            )
            try:
                async with http:
                    transport = streamable_http_client(run.load.target.url, http_client=http)
                    async with Client(transport, mode=_MODES[self._family], cache=None) as client:
                        run.connects.append(run.now - begun)
                        await self._calls(client)
            except Exception as error:  # noqa: BLE001  # The SDK's tasks raise groups of arbitrary exceptions.
                self._failed(begun, error)
                await asyncio.sleep(REFUSED_PAUSE)

    def close(self) -> None:
        """Do nothing: `work` closes its client itself."""

    async def _calls(self, client: Client) -> None:
        run = self._run
        async for number, due in run.turns():
            begun = run.now if due is None else due
            text = f"load {number}"
            try:
                async with asyncio.timeout(run.load.patience):
                    result = await client.call_tool("echo", {"message": text})
            except (MCPError, TimeoutError, httpx2.HTTPError) as error:
                self._failed(begun, error)
                continue
            block = result.content[0] if result.content else None
            right = isinstance(block, TextContent) and block.text == text and not result.is_error
            run.samples.add(begun, run.now, "" if right else "wrong text", self._replica, _NAME, self._number)

    async def _note(self, response: httpx2.Response) -> None:
        self._replica = response.headers.get("X-Served-By", "")

    def _failed(self, begun: float, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        kind = f"SDK: {type(error).__name__}"
        self._run.samples.examples.setdefault(kind, str(error))
        self._run.samples.add(begun, self._run.now, kind, "", _NAME, self._number)

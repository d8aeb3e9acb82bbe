"""FastMCP middleware that hides a tool from the callers that may not use it."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import mcp_types as mt
from fastmcp.exceptions import NotFoundError
from fastmcp.server.dependencies import get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import Tool, ToolResult
from starlette.types import Scope

from anyreplica.auth.caller import may_use

_PROXIED: ContextVar[Scope | None] = ContextVar("proxied", default=None)
"""The request that passes a proxy to another server of this process. None: this package asks, or the author's code."""
_INSIDE: ContextVar[frozenset[int]] = ContextVar("inside", default=frozenset())
"""The middleware whose servers work on a request that is not a list of tools."""


class Visibility(Middleware):
    """A middleware that removes tools from lists if the caller may not use them.

    A call of such a tool gets the same answer as a call of an unknown tool. The fast path checks the caller's tools
    itself.

    Args:
        names: returns the names that clients use for a tool of the server that has this middleware.
    """

    def __init__(self, names: Callable[[str], Iterable[str]] = lambda name: (name,)) -> None:
        self._names = names

    async def on_list_tools(
        self, context: MiddlewareContext[mt.ListToolsRequest], call_next: CallNext[mt.ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Return only the tools that the caller may use."""
        return [tool for tool in await call_next(context) if self._is_permitted(tool.name)]

    async def on_call_tool(
        self,
        context: MiddlewareContext[mt.CallToolRequestParams],
        call_next: CallNext[mt.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Raise `NotFoundError` for a tool that the caller may not use, as FastMCP does for an unknown tool."""
        name = context.message.name
        if not self._is_permitted(name):
            raise NotFoundError(f"Unknown tool: {name!r}")
        return await call_next(context)

    def _is_permitted(self, name: str) -> bool:
        scope = self._scope()
        return scope is None or any(may_use(scope, each) for each in self._names(name))

    def _scope(self) -> Scope | None:
        return get_http_request().scope


class InnerVisibility(Visibility):
    """The same for a mounted server.

    A tool of it may call its other tools in the name of a caller, as FastMCP's search transforms do. It has no part in
    what this package itself requests: nobody's tools are then the right ones.
    """


class ProxiedVisibility(InnerVisibility):
    """The same for a server that a proxy in the same process reaches.

    It applies to the requests of the proxy. The lists that the proxy itself requests stay complete, because the proxy
    keeps them for all callers. The server in front of the proxy hides the tools that a caller may not use.

    Args:
        root: the server in front, whose clients have the names.
    """

    def __init__(self, root: object, names: Callable[[str], Iterable[str]]) -> None:
        super().__init__(names)
        self.root = root

    async def on_request(self, context: MiddlewareContext[Any], call_next: CallNext[Any, Any]) -> Any:
        """Note that the server works on a request, so that the lists in it are for the caller."""
        if context.method == "tools/list":
            return await call_next(context)
        token = _INSIDE.set(_INSIDE.get() | {id(self)})
        try:
            return await call_next(context)
        finally:
            _INSIDE.reset(token)

    async def on_list_tools(
        self, context: MiddlewareContext[mt.ListToolsRequest], call_next: CallNext[mt.ListToolsRequest, Sequence[Tool]]
    ) -> Sequence[Tool]:
        """Return only the tools that the caller may use, if a tool of the server asks."""
        if id(self) in _INSIDE.get():
            return await super().on_list_tools(context, call_next)
        return await call_next(context)

    def _scope(self) -> Scope | None:
        return _PROXIED.get()


def note_proxied_request() -> None:
    """Remember the request of the running call for the server behind a proxy. Without a request, nothing changes."""
    with suppress(RuntimeError):
        _PROXIED.set(get_http_request().scope)

"""A server of the MCP SDK, in the form of a FastMCP server: the SDK's `MCPServer`, or its low-level `Server`.

A FastMCP server contains a low-level server, which answers its requests. Here this is the author's own one. So a
request takes the same steps as on the FastMCP path, without FastMCP's part of them.

This module uses private names of FastMCP and the SDK, which `tests/test_private_names.py` lists.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import mcp_types as mt
from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider
from mcp.server import Server
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.routes import create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import HandlerResult
from mcp.server.lowlevel.server import HandlerEntry
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.tools import Tool
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    RequestStateBoundary,
    RequestStateSecurity,
    authenticated_principal,
)
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import AnyHttpUrl, ValidationError
from starlette.routing import Route

from anyreplica.mcp.compat import sdk
from anyreplica.mcp.compat.dispatch import Dispatch
from anyreplica.mcp.message import Request
from anyreplica.mcp.registry import Components, Prepare
from anyreplica.settings.errors import StartupError

logger = logging.getLogger(__name__)


EXPECTED = "it must be a FastMCP server, or an MCPServer or a low-level Server of the MCP SDK"
"""What a server must be, for messages."""

_DEFAULT_NAME = "mcp-server"
"""The SDK's name for an `MCPServer` without a name."""

_LISTEN = "subscriptions/listen"

_NEVER_CALLED = ("run", "run_streamable_http_async", "streamable_http_app")
"""Methods with which the SDK serves. This package serves in its own way."""

_MOST_PAGES = 100
"""Maximum number of pages of a list that `check` reads. The SDK has the same limit for lists that it reads itself."""

_MOST_TOOLS = 1000
"""Maximum number of tools whose names are known. The author's code may list other names to each client."""

_DEFAULT_TTL = 600.0
"""Lifetime of a request state in seconds, if the author has not chosen one."""


class SdkTokens(AuthProvider):
    """The options `auth=` and `token_verifier=` of an `MCPServer`, as an auth provider of FastMCP."""

    def __init__(self, auth: AuthSettings, verifier: TokenVerifier) -> None:
        super().__init__(base_url=auth.resource_server_url, required_scopes=auth.required_scopes)
        self._auth = auth
        self._verifier = verifier

    async def verify_token(self, token: str) -> Any:
        """Return what the author's code knows about a token, or None if the token is not valid for this server."""
        found: AccessToken | None = await self._verifier.verify_token(token)
        if found is None or not self._auth.validate_token_resource or self._auth.resource_server_url is None:
            return found
        return found if _same(found.resource, str(self._auth.resource_server_url)) else None

    def get_routes(self, mcp_path: str | None = None) -> list[Route]:  # noqa: ARG002  # the URL has the path
        """Return the routes of the protected resource metadata (RFC 9728), if the author has named the resource."""
        if self._auth.resource_server_url is None:
            return []
        return create_protected_resource_routes(
            resource_url=self._auth.resource_server_url,
            authorization_servers=[self._auth.issuer_url],
            scopes_supported=self._auth.required_scopes,
        )


def _same(resource: str | None, wanted: str) -> bool:
    """Return whether a token's resource (RFC 8707) is the URL of this server."""
    try:
        given = str(AnyHttpUrl(resource or ""))
    except ValidationError:
        return False
    return given.removesuffix("/") == wanted.removesuffix("/")


@dataclass
class Listed:
    """The components of a server, as it lists them to a client that it does not know, or as its registries have them.

    Both forms have a name or a URI, and a description.
    """

    tools: Sequence[Any] = ()
    resources: Sequence[Any] = ()
    templates: Sequence[Any] = ()
    prompts: Sequence[Any] = ()


class SdkServer(FastMCP[Any]):
    """A FastMCP server without components, inside which a server of the SDK answers all requests.

    Attributes:
        served: the server of the SDK.
        kind: the name of the server's class, for messages.
        path_reason: a sentence that says why the SDK answers the requests.
        registries: the components of an `MCPServer`. A low-level `Server` has none.

    Raises:
        StartupError: a part of the server cannot be served. The text names the part.
    """

    def __init__(self, served: MCPServer[Any] | Server[Any]) -> None:
        super().__init__(served.name)
        self.served = served
        self.kind = type(served).__name__
        self.path_reason = f"the server is of the MCP SDK ({self.kind})"
        self._known: dict[str, str] = {}
        self.registries: list[Components] = []
        inner: Any = served._lowlevel_server if isinstance(served, MCPServer) else served
        self._mcp_server = inner
        self._state: Any = None
        self._check_methods(MCPServer if isinstance(served, MCPServer) else Server)
        if isinstance(served, MCPServer):
            self._additional_http_routes = served._custom_starlette_routes  # type: ignore[assignment]
            self.auth = _login_of(served)
        inner.lifespan = self._noting_state(inner.lifespan)

    def _check_methods(self, base: type) -> None:
        for name in _NEVER_CALLED:
            if getattr(type(self.served), name, None) is not getattr(base, name, None):
                raise StartupError(
                    f"{self.kind}.{name}: anyreplica never calls this method, because it serves the app itself; "
                    "pass middleware and routes to create_app as middleware= and routes="
                )

    def _noting_state(self, lifespan: Any) -> Any:
        @asynccontextmanager
        async def noting(server: Any) -> AsyncIterator[Any]:
            async with lifespan(server) as state:
                self._state = state
                yield state

        return noting

    def prepare(self, prepare: Prepare) -> None:
        """Prepare all components of an `MCPServer`, and later each component that is added to it."""
        if isinstance(self.served, MCPServer):
            tools, resources, prompts = (
                self.served._tool_manager,
                self.served._resource_manager,
                self.served._prompt_manager,
            )
            tools._tools = Components(tools._tools, prepare)
            resources._resources = Components(resources._resources, prepare)
            resources._templates = Components(resources._templates, prepare)
            prompts._prompts = Components(prompts._prompts, prepare)
            self.registries = [tools._tools, resources._resources, resources._templates, prompts._prompts]

    @property
    def has_default_name(self) -> bool:
        """Whether the author has not named the server. Several servers then have the same name."""
        return self.has_components and self.name == _DEFAULT_NAME

    @property
    def has_components(self) -> bool:
        """Whether the server is an `MCPServer`, which keeps its components itself."""
        return isinstance(self.served, MCPServer)

    def tool_named(self, name: str) -> Tool | None:
        """Return a tool of an `MCPServer`. None: there is none, or the low-level server has tools of its own kind."""
        return self.served._tool_manager.get_tool(name) if isinstance(self.served, MCPServer) else None

    @property
    def components(self) -> Iterable[Any]:
        """The components of an `MCPServer`."""
        return [each for registry in self.registries for each in registry.values()]

    @property
    def hides_errors(self) -> bool:
        """Whether clients do not get the texts of unexpected exceptions, see `choose_masking`."""
        return self._mask_error_details

    @property
    def registered(self) -> Listed:
        """What an `MCPServer` has in its registries. Reading it runs no code of the author."""
        if not isinstance(self.served, MCPServer):
            return Listed()
        tools, resources = self.served._tool_manager, self.served._resource_manager
        return Listed(
            tools.list_tools(),
            resources.list_resources(),
            resources.list_templates(),
            self.served._prompt_manager.list_prompts(),
        )

    def known_tools(self) -> dict[str, str]:
        """Return the names of the registered tools, with the reason of their path.

        The author's code may list others to clients. `note_listed` adds them to the dictionary.
        """
        self._known = {each.name: self.path_reason for each in self.registered.tools}
        return self._known

    def note_listed(self, result: HandlerResult) -> None:
        """Note the names of the tools in a list that a client gets."""
        tools = result.get("tools") if isinstance(result, dict) else None
        for each in tools if isinstance(tools, list) else ():
            name = each.get("name") if isinstance(each, dict) else None
            if isinstance(name, str) and len(self._known) < _MOST_TOOLS:
                self._known[name] = self.path_reason

    async def listed(self) -> Listed:
        """Ask the server for its lists. A list that it does not have, or that it cannot give now, is empty.

        The handlers of the lists may be code of the author, which a replica must not run without a client. So only
        commands that promise the lists call this method.
        """
        return Listed(
            await self._pages("tools/list", mt.ListToolsResult, "tools"),
            await self._pages("resources/list", mt.ListResourcesResult, "resources"),
            await self._pages("resources/templates/list", mt.ListResourceTemplatesResult, "resource_templates"),
            await self._pages("prompts/list", mt.ListPromptsResult, "prompts"),
        )

    async def _pages(self, method: str, kind: type[Any], name: str) -> list[Any]:
        entry = self._mcp_server.get_request_handler(method)
        found: list[Any] = []
        if entry is None:
            return found
        try:
            cursor: str | None = None
            for _ in range(_MOST_PAGES):
                result = await self._page(method, entry, cursor)
                page = kind.model_validate(result) if isinstance(result, Mapping) else result
                found += getattr(page, name)
                cursor = page.next_cursor
                if not cursor:
                    break
        except Exception as error:  # noqa: BLE001  # the author's code, without a client
            text = f"{type(error).__name__}: {error}"
            logger.warning("%s: the server cannot list them without a client: %s", method, text)
        return found

    def _page(self, method: str, entry: HandlerEntry[Any], cursor: str | None) -> Any:
        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": []}
        dispatch = Dispatch(Request(0, method, None, 0), scope)
        runner = sdk.runner_of(self, self._state, LATEST_MODERN_VERSION)
        context = runner._make_context(dispatch, method, None, None, LATEST_MODERN_VERSION)
        return entry.handler(context, mt.PaginatedRequestParams(cursor=cursor))

    def seal_states(self, security: RequestStateSecurity, audience: str) -> None:
        """Seal request states as all replicas can open them, unless the author has chosen how.

        A server without the SDK's boundary for request states sends them as its code makes them.
        """
        chain = self._mcp_server.middleware
        ours = RequestStateBoundary(security, default_audience=audience)
        chain[:] = [ours if isinstance(each, RequestStateBoundary) and _is_default(each) else each for each in chain]

    @property
    def has_own_subscriptions(self) -> bool:
        """Whether the author's code delivers changes to the clients that listen. This package does it otherwise."""
        return self._mcp_server.get_request_handler(_LISTEN) is not None and self._memory_bus is None

    @property
    def _memory_bus(self) -> Any:
        """The SDK's bus for changes in the memory of one process, or None if the server has another one or none."""
        entry = self._mcp_server.get_request_handler(_LISTEN)
        handler = None if entry is None else entry.handler
        bus = handler._bus if isinstance(handler, ListenHandler) else None
        return bus if type(bus) is InMemorySubscriptionBus else None

    def listens_over(self, bus: SubscriptionBus | None) -> bool:
        """Let the server publish its changes over `bus`. Return False if it does not use the SDK's bus in memory.

        Args:
            bus: the change events of all replicas. None: the replicas share none.
        """
        memory = self._memory_bus
        if memory is None:
            return False
        if bus is None:
            sdk.withdraw_method(self, _LISTEN)
        else:
            memory.publish = bus.publish  # the author's code may have a reference to its bus
        return True

    def end_streams_with(self, end: Callable[[], None]) -> None:
        """Let the SDK's `ListenHandler.close()` call `end`, because this package serves the event streams.

        The author's code may have a reference to the handler. Call this method before another handler replaces it.
        """
        entry = self._mcp_server.get_request_handler(_LISTEN)
        if entry is not None and isinstance(entry.handler, ListenHandler):
            entry.handler.close = end  # type: ignore[method-assign]

    def close_streams(self) -> None:
        """End the event streams of the author's own handler of subscriptions."""
        entry = self._mcp_server.get_request_handler(_LISTEN)
        if entry is not None and isinstance(entry.handler, ListenHandler):
            entry.handler.close()


def as_fastmcp(server: object) -> FastMCP:
    """Return a server in the form of a FastMCP server.

    Raises:
        StartupError: the object is no server, or a part of the server cannot be served.
    """
    if isinstance(server, FastMCP):
        return server
    if isinstance(server, MCPServer | Server):
        return SdkServer(server)
    raise StartupError(f"This is a {type_name(server)}; {EXPECTED}")


def type_name(thing: object) -> str:
    """Return the module and the name of an object's class."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _login_of(served: MCPServer[Any]) -> SdkTokens | None:
    """Return the login of an `MCPServer`, or None if it has none."""
    if (provider := served._auth_server_provider) is not None:
        raise StartupError(
            f"MCPServer(auth_server_provider={type(provider).__name__}): not served, because replicas cannot share the "
            "clients, codes and tokens of this provider; use token_verifier= with an authorization server, or "
            "LOGIN_PROVIDER"
        )
    if served._token_verifier is None or served.settings.auth is None:
        return None
    return SdkTokens(served.settings.auth, served._token_verifier)


def _is_default(boundary: RequestStateBoundary) -> bool:
    """Return whether a boundary has only a key, which is the one of this process if the author has chosen nothing."""
    security = boundary._security
    return (
        type(security.codec) is AESGCMRequestStateCodec
        and security.ttl == _DEFAULT_TTL
        and security.audience is None
        and security.bind_principal is authenticated_principal
    )

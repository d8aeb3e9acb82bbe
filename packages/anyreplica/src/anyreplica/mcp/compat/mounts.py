"""The servers behind a FastMCP server (itself, and the servers that are mounted in it), and where its tools come from.

This module uses private names of FastMCP, which `tests/test_private_names.py` lists.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from operator import attrgetter
from typing import Any, cast

from fastmcp import FastMCP
from fastmcp.server.context import _current_transport
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.providers import FileSystemProvider, LocalProvider, Provider, aggregate
from fastmcp.server.providers.fastmcp_provider import FastMCPProvider, FastMCPProviderTool
from fastmcp.server.providers.wrapped_provider import _WrappedProvider
from fastmcp.server.transforms import (
    Namespace,
    PromptsAsTools,
    ResourcesAsTools,
    ToolTransform,
    Transform,
    VersionFilter,
    Visibility,
)
from fastmcp.tools import Tool
from fastmcp.utilities.components import FastMCPComponent
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from starlette.routing import BaseRoute

from anyreplica.mcp.compat.forwarding import servers_behind, watch
from anyreplica.mcp.compat.overrides import own_way
from anyreplica.mcp.compat.sdk import low_level
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.registry import Components, Prepare

_STEADY_TRANSFORMS = (Namespace, PromptsAsTools, ResourcesAsTools, ToolTransform, VersionFilter, Visibility)
"""Transforms of FastMCP that treat all requests alike."""

_STEADY_MODULES = ("fastmcp.server.providers.openapi.", "fastmcp.server.sessions")
"""Modules of FastMCP's providers whose tools do not change while the server runs."""

_WITHOUT_TOOLS = "fastmcp.server.providers.skills."
"""The package of FastMCP's providers that offer resources and no tools."""


@dataclass(frozen=True)
class Origin:
    """Where a listed tool comes from.

    Attributes:
        tool: the tool as the innermost server has it. None: it cannot be found there.
        servers: the servers that a call of the tool passes, the outermost server first.
    """

    tool: Tool | None
    servers: tuple[FastMCP, ...]


def servers_of(mcp: FastMCP) -> list[FastMCP]:
    """Return a server and all servers that are mounted in it, at any depth. Each server is in the list once."""
    found: list[FastMCP] = [mcp]
    for server in found:  # the list grows inside the loop
        for provider, _ in _providers(server):
            if isinstance(provider, FastMCPProvider) and provider.server not in found:
                found.append(provider.server)
    return found


def prepare_components(server: FastMCP, prepare: Prepare) -> None:
    """Prepare all components that a server has, and later each component that is added to it.

    Raises ValueError if a component cannot be prepared. The method that adds a component later then raises it.
    """
    for provider in _registries(server):
        if not isinstance(provider._components, Components):
            provider._components = Components(provider._components, prepare)


def local_components(mcp: FastMCP) -> list[FastMCPComponent]:
    """Return the components that the servers have themselves, and not from other providers."""
    found = (provider._components.values() for server in servers_of(mcp) for provider in _registries(server))
    return [component for components in found for component in components]


def changing(mcp: FastMCP) -> tuple[Callable[[], int], list[Sized]]:
    """Return what decides call plans and lists: the number of changes of all components, and other collections.

    Components may be added and removed while the server runs. FastMCP's `enable`, `disable` and `add_…` methods append
    to the other collections. The servers are those that are mounted now: call this again after each change.
    """
    counted: list[Sized] = []
    registries: list[Components] = []
    for server in servers_of(mcp):
        counted += (server._transforms, server.middleware, server.providers, server._extensions)
        counted += (low_level(server)._request_handlers,)
        for provider, transforms in _providers(server):
            counted += (provider._transforms, *transforms)
        registries += [cast("Components", provider._components) for provider in _registries(server)]
    if isinstance(mcp, SdkServer):
        registries = mcp.registries
    if len(registries) == 1:  # each call asks for the number, and this function runs no bytecode
        return partial(attrgetter("changes"), registries[0]), counted
    return lambda: sum(each.changes for each in registries), counted


def parts_of(mcp: FastMCP) -> list[object]:
    """Return all objects that the servers use: servers, providers, transforms, extensions and auth providers."""
    found: list[object] = []
    for server in servers_of(mcp):
        found += [server, server.auth, *server._extensions.values(), *server.providers, *_transforms(server)]
        found += [provider for provider, _ in _providers(server)]
    return found


def custom_routes(mcp: FastMCP) -> list[BaseRoute]:
    """Return the routes that the servers' authors have added (`@mcp.custom_route`)."""
    return mcp._get_additional_http_routes()


def failed_files(mcp: FastMCP) -> list[tuple[str, str]]:
    """Return the files that a `FileSystemProvider` of a server cannot import, each with the error."""
    providers = [provider for server in servers_of(mcp) for provider, _ in _providers(server)]
    found = [each.failed_files for each in providers if isinstance(each, FileSystemProvider) and not each._reload]
    return [(str(file), error) for failed in found for file, error in failed.items()]


async def origins(mcp: FastMCP) -> list[tuple[Tool, Origin]]:
    """Return all enabled tools of a server under the names that its clients see, and where each comes from."""
    listed: dict[FastMCP, Sequence[Tool]] = {}

    async def tools_of(server: FastMCP) -> Sequence[Tool]:
        if server not in listed:
            listed[server] = await server.list_tools(run_middleware=False)
        return listed[server]

    found = []
    for tool in await tools_of(mcp):
        inner: Tool | None = tool
        servers = [mcp]
        while isinstance(inner, FastMCPProviderTool):
            servers.append(inner._server)
            same = [each for each in await tools_of(servers[-1]) if each.name == inner._original_name]
            # With several versions, FastMCP calls the newest one, even if a rule outside the mounted server hides it.
            inner = same[0] if len(same) == 1 and same[0].version == inner.version else None
        found.append((tool, Origin(inner, tuple(servers))))
    return found


def why_unplannable(server: FastMCP) -> str:
    """Return why no tool of a server can have a call plan; empty if tools can have plans."""
    if found := unsteady_transform(server):
        return f"the transform {found} takes part in calls"
    if found := intercepting(server):
        return f"the protocol extension {found} takes part in calls"
    if found := own_way(server):
        return found
    return "the server has strict input validation" if server.strict_input_validation else ""


def unsteady_transform(server: FastMCP) -> str:
    """Return the class of a transform that may treat requests differently; empty if there is none."""
    return next((type(each).__name__ for each in _transforms(server) if type(each) not in _STEADY_TRANSFORMS), "")


def intercepting(server: FastMCP) -> str:
    """Return the class of a protocol extension that takes part in calls; empty if there is none."""
    for extension in server._extensions.values():
        intercepts = type(extension).intercept_tool_call is not ServerExtension.intercept_tool_call
        # The tasks extension changes only the calls of tools that may run as a task.
        if intercepts and extension.identifier != TASKS_EXTENSION_ID:
            return type(extension).__name__
    return ""


def open_names(server: FastMCP, why_open: Callable[[FastMCP], str]) -> list[tuple[str, str]]:
    """Return the prefixes of names of tools that a server may answer without listing them, each with the reason.

    Args:
        why_open: returns why a mounted server may have tools that it does not list; empty if it lists all.
    """
    found = []
    for provider, transforms in _providers(server):
        prefixes: list[tuple[str, str]] = []
        if isinstance(provider, FastMCPProvider):
            prefixes = open_names(provider.server, why_open)
            if reason := why_open(provider.server):
                prefixes.append(("", reason))
        elif not _is_steady(provider) and not type(provider).__module__.startswith(_WITHOUT_TOOLS):
            prefixes = [("", f"the provider {type(provider).__name__} may offer a tool of this name at any time")]
        for transform in (*provider._transforms, *(each for some in transforms for each in some)):
            prefixes = _renamed(prefixes, transform)
        found += prefixes
    for transform in server._transforms:
        found = _renamed(found, transform)
    return found


def _renamed(prefixes: list[tuple[str, str]], transform: Transform) -> list[tuple[str, str]]:
    """Return the prefixes that names with these prefixes have after a transform."""
    if isinstance(transform, Namespace):
        return [(f"{transform._prefix}_{prefix}", reason) for prefix, reason in prefixes]
    if isinstance(transform, ToolTransform):
        names = [(old, changed.name) for old, changed in transform._transforms.items() if changed.name]
        new = [(name, reason) for prefix, reason in prefixes for old, name in names if old.startswith(prefix)]
        return [*prefixes, *new]
    return prefixes


def outer_names(root: FastMCP, inner: FastMCP, name: str) -> set[str]:
    """Return the names that a tool of a mounted server has for the clients of `root`.

    Args:
        inner: the mounted server, at any depth. It may also be behind a proxy in this process.
        name: name of the tool for the clients of `inner`.
    """
    if root is inner:
        return {name}
    found = set()
    for provider, around in _providers(root):
        servers = [provider.server] if isinstance(provider, FastMCPProvider) else servers_behind(provider)
        transforms = (*provider._transforms, *(each for some in around for each in some), *root._transforms)
        for server in servers:
            found |= {reduce(_renamed_tool, transforms, outer) for outer in outer_names(server, inner, name)}
    return found


def watch_proxies(server: FastMCP, limit: Callable[[FastMCP], None]) -> None:
    """Call `limit` with each server of this process that a proxy of a server reaches. This may be repeated."""
    for provider, _ in _providers(server):
        watch(provider, limit)


def _renamed_tool(name: str, transform: Transform) -> str:
    """Return the name that a tool has after a transform."""
    if isinstance(transform, Namespace):
        return f"{transform._prefix}_{name}"
    changed = transform._transforms.get(name) if isinstance(transform, ToolTransform) else None
    return changed.name or name if changed is not None else name


async def are_for_all(mcp: FastMCP) -> bool:
    """Return whether no component of a server has an authorization check of its own.

    It lists the components that the servers list, from every provider. Over stdio, FastMCP hides none of them.
    """
    token = _current_transport.set("stdio")
    try:
        for server in servers_of(mcp):
            components = chain(
                await server.list_tools(run_middleware=False),
                await server.list_resources(run_middleware=False),
                await server.list_resource_templates(run_middleware=False),
                await server.list_prompts(run_middleware=False),
            )
            if any(getattr(each, "auth", None) is not None for each in components):
                return False
    finally:
        _current_transport.reset(token)
    return True


def are_lists_steady(mcp: FastMCP) -> bool:
    """Return whether the lists of a server's components change only when one of `changing` changes."""
    return not has_unsteady_provider(mcp) and not any(
        unsteady_transform(each) or own_way(each) for each in servers_of(mcp)
    )


def has_unsteady_provider(mcp: FastMCP) -> bool:
    """Return whether a provider may offer other components at any time, such as those of another server."""
    providers = (provider for server in servers_of(mcp) for provider, _ in _providers(server))
    return any(type(each) is not FastMCPProvider and not _is_steady(each) for each in providers)


def _providers(server: FastMCP) -> Iterator[tuple[Provider, list[list[Transform]]]]:
    """Return the providers of a server, each with the lists of transforms around it, the innermost list first."""
    for each in server.providers:
        provider, around = each, list[list[Transform]]()
        while isinstance(provider, _WrappedProvider):
            around.insert(0, provider._transforms)
            provider = provider._inner
        yield provider, around


def _transforms(server: FastMCP) -> list[Transform]:
    found = list(server._transforms)
    for provider, around in _providers(server):
        found += provider._transforms
        for transforms in around:
            found += transforms
    return found


def _registries(server: FastMCP) -> list[LocalProvider]:
    """Return the providers of a server that register components, except those that read their files again and again."""
    registering = [provider for provider, _ in _providers(server) if isinstance(provider, LocalProvider)]
    return [provider for provider in registering if _is_steady(provider)]


def _is_steady(provider: Provider) -> bool:
    if isinstance(provider, FileSystemProvider) and provider._reload:
        return False
    of_fastmcp = type(provider).__module__.startswith("fastmcp.")
    if isinstance(provider, LocalProvider):
        return of_fastmcp
    return type(provider).__module__.startswith(_STEADY_MODULES)


_gather_all = aggregate.gather  # type: ignore[attr-defined]  # imported there from another module


async def _gather(awaitables: Iterable[Awaitable[Any]], *, return_exceptions: bool = False) -> list[Any]:
    """Return the results of awaitables in their order, like FastMCP's `gather`, but a single one without a new task.

    Most servers have one provider. FastMCP then starts a task for it in each search for a component.
    """
    waiting = iter(awaitables)
    first = next(waiting, None)
    second = None if first is None else next(waiting, None)
    if first is None or second is not None:
        given = () if first is None else chain((first, cast("Awaitable[Any]", second)), waiting)
        return await _gather_all(given, return_exceptions=return_exceptions)  # type: ignore[call-overload, no-any-return]
    try:
        return [await first]
    except Exception as error:
        if not return_exceptions:
            raise
        return [error]


def search_without_tasks() -> None:
    """Let FastMCP search for a component without a new task if a server has one provider, in the whole process."""
    aggregate.gather = _gather  # type: ignore[attr-defined]

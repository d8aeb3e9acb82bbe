"""Tools that use their context or injected dependencies."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext, CurrentFastMCP, Depends, Progress
from fastmcp.server.dependencies import (
    CurrentHeaders,
    CurrentRequest,
    get_access_token,
    get_context,
    get_http_headers,
    get_http_request,
    get_server,
)
from fastmcp.tools import tool
from mcp_types import ToolListChangedNotification
from starlette.requests import Request
from uncalled_for import CallArgument, Shared

_CONTEXT: Context = CurrentContext()
_HEADERS: dict[str, str] = CurrentHeaders()
_SERVER: FastMCP = CurrentFastMCP()
_REQUEST: Request = CurrentRequest()
_PROGRESS = Progress()
_WORD: str = CallArgument("word")

_open: list[str] = []


async def _async_value() -> str:
    return "async"


_SHARED: str = Shared(_async_value)


def _sync_value() -> str:
    return "sync"


@asynccontextmanager
async def _async_manager() -> AsyncIterator[str]:
    _open.append("async")
    try:
        yield "async manager"
    finally:
        _open.remove("async")


@contextmanager
def _sync_manager() -> Iterator[str]:
    _open.append("sync")
    try:
        yield "sync manager"
    finally:
        _open.remove("sync")


def _nested(value: str = Depends(_async_value), context: Context = _CONTEXT) -> str:
    return f"{value} within {context.request_id}"


def _list() -> list[int]:
    return []


_LIST: list[int] = Depends(_list)
_LIST_AGAIN: list[int] = Depends(_list)


def _by_argument(word: str = _WORD) -> str:
    return f"for {word}"


async def _from_another() -> str:
    result = await get_context().fastmcp.call_tool("injected_in_a_thread", {})
    return result.content[0].text  # type: ignore[union-attr]


def _deep() -> str:
    return get_context().request_id


@tool
async def context_id(ctx: Context) -> str:
    """Return the request's id."""
    return ctx.request_id


@tool
def context_id_in_a_thread(ctx: Context) -> str:
    """Return the request's id from a thread."""
    return ctx.request_id


@tool
async def context_id_of_nobody_asked() -> str:
    """Return the request's id without a context parameter."""
    return _deep()


@tool
def context_id_of_nobody_asked_in_a_thread() -> str:
    """Return the request's id without a context parameter, from a thread."""
    return _deep()


@tool
async def context_id_in_a_task() -> str:
    """Return the request's id from a task that the tool starts."""
    return await asyncio.create_task(asyncio.to_thread(_deep))


@tool
async def context_at_large(ctx: Context) -> dict[str, Any]:
    """Return the other values of a context."""
    request = ctx.request_context
    assert request is not None
    return {
        "client": ctx.client_id,
        "transport": ctx.transport,
        "server": ctx.fastmcp.name,
        "same server": get_server() is ctx.fastmcp,
        "background": ctx.is_background_task,
        "origin": ctx.origin_request_id,
        "version": request.protocol_version,
        "meta": request.meta if request.meta is None else dict(request.meta),
        "path": request.request.url.path if request.request else None,
        "lifespan": ctx.lifespan_context,
        "responses": ctx.input_responses,
        "state": ctx.request_state,
    }


@tool
async def context_of_the_client(ctx: Context) -> dict[str, Any]:
    """Return data about the client from the context's session."""
    params = ctx.session.client_params
    return {
        "params": None if params is None else params.model_dump(mode="json"),
        "extensions": ctx.client_supports_extension("io.example/none"),
    }


@tool
async def context_remembers(ctx: Context) -> list[Any]:
    """Store a value in the state and read it again."""
    before = await ctx.get_state("seen")
    await ctx.set_state("seen", {"a": 1}, serializable=False)
    return [before, await ctx.get_state("seen")]


@tool
async def context_lists(ctx: Context) -> list[str]:
    """Return the names of the server's prompts."""
    return sorted(prompt.name for prompt in await ctx.list_prompts())


@tool
async def context_reads(ctx: Context) -> str:
    """Return the content of a resource."""
    read = await ctx.read_resource("template://about")
    return str(read.contents[0].content)


@tool
async def headers() -> dict[str, str]:
    """Return the request's headers without those that FastMCP withholds."""
    return get_http_headers()


@tool
async def headers_injected(found: dict[str, str] = _HEADERS) -> list[str]:
    """Return the names of the request's headers."""
    return sorted(found)


@tool
def request_in_a_thread() -> str:
    """Return parts of the request from a thread."""
    request = get_http_request()
    return f"{request.method} {request.url.path} {request.headers.get('mcp-session-id')}"


@tool
async def injected(
    word: str = "w",
    one: str = Depends(_async_value),
    two: str = Depends(_sync_value),
    three: str = Depends(_async_manager),
    four: str = Depends(_sync_manager),
    five: str = Depends(_nested),
    server: FastMCP = _SERVER,
) -> list[Any]:
    """Return dependencies of every kind, and which context managers are open."""
    return [word, one, two, three, four, five, server.name, sorted(_open)]


@tool
def injected_in_a_thread(word: str = "w", one: str = Depends(_async_value), two: str = Depends(_sync_manager)) -> str:
    """Return the dependencies of a plain `def`."""
    return f"{word} {one} {two} {_open}"


@tool
async def injected_once(first: list[int] = _LIST, second: list[int] = _LIST_AGAIN) -> bool:
    """Return whether two parameters share a dependency."""
    return first is second


@tool
async def injected_by_argument(word: str = "w", found: str = Depends(_by_argument)) -> str:
    """Return a dependency that depends on an argument of the call."""
    return found


@tool
async def injected_for_all(shared: str = _SHARED) -> str:
    """Return a dependency that all calls share."""
    return shared


@tool
async def injected_from_another(found: str = Depends(_from_another), one: str = Depends(_async_manager)) -> list[Any]:
    """Return a dependency that calls a tool with its own dependencies."""
    return [found, one, sorted(_open)]


@tool
async def injected_into_generator(one: str = Depends(_async_manager)) -> list[str]:
    """Return a generator that needs the dependency while its items are read."""
    return (f"{one} {sorted(_open)}" for _ in range(2))  # type: ignore[return-value]


@tool
async def injected_around_another(ctx: Context, one: str = Depends(_async_manager)) -> list[Any]:
    """Call a tool with dependencies while this tool's dependencies stay open."""
    inner = await ctx.fastmcp.call_tool("injected_in_a_thread", {})
    return [inner.content[0].text, one, sorted(_open), get_context().request_id]  # type: ignore[union-attr]


@tool
async def reports(ctx: Context, steps: int = 2) -> str:
    """Send progress and log messages during the call."""
    for step in range(min(steps, 5)):
        await ctx.report_progress(step, steps, f"step {step}")
        await ctx.info(f"at {step}", logger_name="steps", extra={"step": step})
    return "reported"


@tool
async def reports_without_parameter() -> str:
    """Send a log message without a context parameter."""
    await get_context().warning("look out")
    return "warned"


@tool
async def reports_injected(progress: Progress = _PROGRESS) -> str:
    """Report progress through a dependency."""
    await progress.set_total(2)
    await progress.increment()
    await progress.set_message("half")
    return f"{progress.current} of {progress.total}: {progress.message}"


@tool
async def notifies(ctx: Context) -> str:
    """Send a notification that does not belong to this request."""
    await ctx.send_notification(ToolListChangedNotification())
    return "notified"


@tool
async def caller(request: Request = _REQUEST) -> list[Any]:
    """Return the path, the session id and the client of the call."""
    token = get_access_token()
    return [request.url.path, request.headers.get("mcp-session-id"), token and token.client_id]


@tool
async def calls_another(ctx: Context, name: str = "text", arguments: dict[str, Any] | None = None) -> Any:
    """Call another tool through the server and return its result."""
    return await ctx.fastmcp.call_tool(name, arguments or {})


@tool
async def calls_itself(ctx: Context, depth: int = 2) -> str:
    """Call this tool again through the server."""
    if depth <= 0:
        return f"ground of {ctx.request_id}"
    inner = await ctx.fastmcp.call_tool("calls_itself", {"depth": min(depth, 3) - 1})
    return f"{inner.content[0].text}, {depth}"  # type: ignore[union-attr]

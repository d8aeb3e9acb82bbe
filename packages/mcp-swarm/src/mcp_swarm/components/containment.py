"""What keeps a component's function off the event loop, and its result within what JSON carries.

A tool, resource or prompt is somebody else's code. Each function is wrapped once, when it is discovered, beneath
everything that FastMCP adds; `mcp_swarm.components.call_limits` bounds the whole call around it.
"""

import asyncio
import functools
import inspect
import json
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, NoReturn

import anyio
from anyio import to_thread
from fastmcp.exceptions import FastMCPError, PromptError, ResourceError, ToolError
from fastmcp.utilities.types import Audio, File, Image
from mcp import MCPError
from pydantic_core import PydanticSerializationError, to_json

logger = logging.getLogger(__name__)

Function = Callable[..., Any]
AsyncFunction = Callable[..., Awaitable[Any]]

ERRORS: dict[str, type[FastMCPError]] = {"tool": ToolError, "resource": ResourceError, "prompt": PromptError}
"""What tells the caller of a kind of component that it failed."""

GENERATOR_ITEMS = 100_000
"""How many items a generator's result may have. One that never ends would fill the memory long before its timeout."""


def contain(fn: Function, *, threads: int | None, kind: str, what: str) -> AsyncFunction:
    """Make any component's function an `async` one of the same signature, whose result is fit for a reply.

    `fn` may be `async def` or `def`, a generator of either kind (its items become a list), or return an awaitable.
    A plain `def` runs in a thread; one that outlasts its call is left behind, since Python can't stop it.

    Args:
        threads: how many calls of a `def` run at once, in threads of its own: FastMCP shares forty between all of
            them, so that one that hangs starves the others. None: on the event loop, one by one.
        kind: "tool", "resource" or "prompt".
        what: the component, for messages.

    Raises (the wrapper):
        ToolError: a generator yields more than `GENERATOR_ITEMS` items.
        ToolError, ResourceError, PromptError: the result holds an object of unknown type, a reference to itself,
            NaN or an infinity (RFC 8259, section 6), or text that isn't Unicode.
    """

    async def fit(result: Any) -> Any:
        settled = await _settled(result)
        try:
            _write(settled)
        except ValueError as error:  # PydanticSerializationError and UnicodeEncodeError are such
            logger.warning("%s returned a value that JSON can't carry: %s", what, error)
            raise ERRORS[kind](f"{what} returned a value that JSON can't carry", log_level=logging.DEBUG) from None
        return settled

    if inspect.iscoroutinefunction(fn):

        @functools.wraps(fn)
        async def contained(*args: Any, **kwargs: Any) -> Any:
            result = await fn(*args, **kwargs)
            # Most results are text, and most text is ASCII, which costs nothing to see.
            return result if type(result) is str and result.isascii() else await fit(result)

        return contained

    on_the_loop = threads is None or inspect.isasyncgenfunction(fn)
    run = fn if on_the_loop else _in_a_thread(fn, anyio.CapacityLimiter(threads or 1))

    @functools.wraps(fn)
    async def contained_too(*args: Any, **kwargs: Any) -> Any:
        return await fit(run(*args, **kwargs))

    return contained_too


async def _settled(result: Any) -> Any:
    while inspect.isawaitable(result):  # twice for a `def` that returned a coroutine from its thread
        result = await result
    if inspect.isasyncgen(result):
        return await _collect(result)
    return _drain(result, threading.Event()) if inspect.isgenerator(result) else result


def mask_prompt_errors(fn: AsyncFunction, *, what: str) -> AsyncFunction:
    """Wrap a prompt's function: its errors are logged once, and reach the caller as a PromptError without their text.

    FastMCP masks the errors of tools and resources, and shows those of prompts.
    """

    @functools.wraps(fn)
    async def masked(*args: Any, **kwargs: Any) -> Any:
        try:
            return await fn(*args, **kwargs)
        except (FastMCPError, MCPError):
            raise
        except Exception:
            logger.exception("Error rendering %s", what)
            raise PromptError(f"Error rendering {what}", log_level=logging.DEBUG) from None

    return masked


def _in_a_thread(fn: Function, limiter: anyio.CapacityLimiter) -> AsyncFunction:
    async def run(*args: Any, **kwargs: Any) -> Any:
        given_up = threading.Event()

        def call() -> Any:
            result = fn(*args, **kwargs)
            return _drain(result, given_up) if inspect.isgenerator(result) else result

        try:
            return await to_thread.run_sync(call, limiter=limiter, abandon_on_cancel=True)
        finally:
            given_up.set()

    return run


def _drain(items: Iterator[Any], given_up: threading.Event) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if given_up.is_set():
            break
        found.append(item)
        _refuse_endless(found)
    return found


async def _collect(items: AsyncIterator[Any]) -> list[Any]:
    found: list[Any] = []
    async for item in items:
        found.append(item)
        _refuse_endless(found)
        if len(found) % 1000 == 0:
            await asyncio.sleep(0)  # others' turn, although this one never waits
    return found


def _refuse_endless(found: list[Any]) -> None:
    if len(found) > GENERATOR_ITEMS:
        raise ToolError(f"More than {GENERATOR_ITEMS} items were generated")


def _write(result: Any) -> None:
    """Write a result as JSON, for what it raises."""
    if isinstance(result, str):
        result.encode()
        return
    written = to_json(result, bytes_mode="base64", inf_nan_mode="constants", fallback=_media)
    if b"NaN" in written or b"Infinity" in written:  # as numbers, or within text
        json.loads(written, parse_constant=_no_number)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _media(value: object) -> None:
    """FastMCP's own result types pass (it writes them itself), any other that JSON doesn't know raises."""
    if not isinstance(value, Image | Audio | File):
        raise PydanticSerializationError(f"unknown type {type(value).__name__}")

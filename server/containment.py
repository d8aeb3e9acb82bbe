"""What keeps one component's misbehaviour from the replica and from every other request.

A tool, resource or prompt is somebody else's code. Stock FastMCP lets a tool that calls `sys.exit()` end the
server's task group (every later request fails), waits forever for a synchronous one that never returns, and
shares forty threads between all of them. So each function is wrapped once, when it is discovered, beneath
everything that FastMCP adds.
"""

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio import to_thread
from fastmcp.exceptions import FastMCPError, PromptError, ToolError
from fastmcp.utilities.types import Audio, File, Image
from mcp import MCPError
from pydantic_core import PydanticSerializationError, to_json

logger = logging.getLogger(__name__)

Function = Callable[..., Any]
AsyncFunction = Callable[..., Awaitable[Any]]


class ComponentExit(Exception):
    """A component raised what is meant to end a process (`SystemExit`, `KeyboardInterrupt`, …)."""


def contain(fn: Function, *, what: str, timeout: float, threads: int | None) -> AsyncFunction:
    """Wrap a component's function so that it can fail only its own call.

    The wrapper has `fn`'s signature and annotations. `fn` may be `async def` or `def`, a generator of either kind
    (its items become a list), or return an awaitable. A thread that outlasts its call is left behind, since
    Python can't stop one.

    Args:
        what: what the function is, as its caller knows it (`tool 'echo'`).
        timeout: seconds until the call is given up.
        threads: how many calls of a `def` run at once, each in a thread; None: on the event loop, one by one.

    Raises (the wrapper):
        ToolError: `fn` took longer than `timeout`.
        ComponentExit: `fn` raised a `BaseException` that isn't an `Exception`.
    """
    on_the_loop = threads is None or inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn)
    run = fn if on_the_loop else _in_a_thread(fn, anyio.CapacityLimiter(threads or 1))

    @functools.wraps(fn)
    async def contained(*args: Any, **kwargs: Any) -> Any:
        try:
            async with asyncio.timeout(timeout) as deadline:
                return await _settle(run(*args, **kwargs))
        except TimeoutError:
            if not deadline.expired():
                raise  # the function's own
            raise ToolError(f"{what} did not finish within {timeout:g} s") from None
        except Exception:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise  # the caller went away
            raise ComponentExit(f"{what} raised CancelledError") from error
        except BaseException as error:
            raise ComponentExit(f"{what} raised {type(error).__name__}") from error

    return contained


def refuse_unwritable(fn: AsyncFunction, *, what: str) -> AsyncFunction:
    """Wrap a tool's function so that a result which JSON can't carry is a tool error, not a broken reply.

    Raises (the wrapper):
        ToolError: the result holds an object of unknown type, a reference to itself, or text that isn't Unicode.
    """

    @functools.wraps(fn)
    async def checked(*args: Any, **kwargs: Any) -> Any:
        result = await fn(*args, **kwargs)
        try:
            if isinstance(result, str):
                result.encode()
            else:
                to_json(result, bytes_mode="base64", fallback=_media)
        except ValueError as error:  # PydanticSerializationError and UnicodeEncodeError are such
            logger.warning("%s returned a value that JSON can't carry: %s", what, error)
            raise ToolError(f"{what} returned a value that JSON can't carry") from None
        return result

    return checked


def mask_prompt_errors(fn: AsyncFunction, *, what: str) -> AsyncFunction:
    """Wrap a prompt's function so that its errors are logged once and reach the caller without their text.

    FastMCP masks the errors of tools and resources, and shows those of prompts.

    Raises (the wrapper):
        PromptError: in place of any exception that was not meant for the caller.
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
    def call(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        return list(result) if inspect.isgenerator(result) else result

    async def run(*args: Any, **kwargs: Any) -> Any:
        bound = functools.partial(call, *args, **kwargs)
        return await to_thread.run_sync(bound, limiter=limiter, abandon_on_cancel=True)

    return run


async def _settle(result: Any) -> Any:
    while inspect.isawaitable(result):  # twice for a `def` that returned a coroutine from its thread
        result = await result
    if inspect.isasyncgen(result):
        return [item async for item in result]
    return list(result) if inspect.isgenerator(result) else result


def _media(value: object) -> None:
    """FastMCP's own result types pass (it writes them itself), any other that JSON doesn't know raises."""
    if not isinstance(value, Image | Audio | File):
        raise PydanticSerializationError(f"unknown type {type(value).__name__}")

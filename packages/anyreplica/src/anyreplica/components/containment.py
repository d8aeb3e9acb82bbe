"""The wrapper around each component's function: it runs blocking code in a thread, and it checks the result.

A tool author's code is outside our control. Discovery wraps each function once, below everything that FastMCP adds.
`anyreplica.components.call_limits` limits the whole call around the function.
"""

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import MethodType
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from fastmcp import FastMCP
from fastmcp.exceptions import FastMCPError, PromptError, ResourceError, ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.utilities.types import get_function_type_hints
from mcp import MCPError

from anyreplica.components.json_results import check_contents, check_tool_result, check_value, no_json

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

Function = Callable[..., Any]

AsyncFunction = Callable[..., Awaitable[Any]]

ResultCheck = Callable[[Any], Awaitable[Any]]
"""Completes and checks a result, see `result_check`."""

ERRORS: dict[str, type[FastMCPError]] = {"tool": ToolError, "resource": ResourceError, "prompt": PromptError}
"""The error type for a failed component, by kind."""

_PLAIN = frozenset({str, int, float, bool, dict, list, type(None)})
"""Types of results that nobody has to await."""

SHOWING_ERRORS: WeakSet[FastMCP] = WeakSet()
"""The servers whose clients get the texts of unexpected errors, see `anyreplica.mcp.compat.masking`."""

GENERATOR_ITEMS = 100_000
"""Maximum number of items of a generator. An endless generator would fill the memory long before its time limit."""


class ThreadRunner(Protocol):
    """Runs blocking functions in threads, a limited number at the same time."""

    async def run(self, fn: Callable[[], Any]) -> Any:
        """Run a function in a thread, with the current context variables, and return its result."""


MakeThreads = Callable[[int], ThreadRunner]
"""Makes the threads of one function. The argument is the maximum number of its calls that run in parallel."""


def plain_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the plain function that runs when `fn` is called: of a method, a callable object or a partial."""
    while not inspect.isfunction(fn):
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, MethodType | staticmethod):
            fn = fn.__func__
        elif inspect.isroutine(fn):  # written in C
            break
        else:
            fn = type(fn).__call__
    return fn


def wraps(fn: Callable[..., Any]) -> Callable[[F], F]:
    """Decorate a plain function so that it has the name, signature and annotations of `fn`.

    `functools.wraps` is right for plain functions only. The wrapper of a bound method would get the parameter `self`,
    and the wrapper of a partial would get no annotations.
    """
    author_function = plain_function(fn)

    def decorate(wrapper: F) -> F:
        functools.update_wrapper(wrapper, author_function)
        if author_function is not fn:
            signature = inspect.signature(fn)
            hints = _hints(author_function)
            annotations = {each.name: each.annotation for each in signature.parameters.values()}
            annotations["return"] = signature.return_annotation
            wrapper.__annotations__ = {
                name: hints.get(name, each) for name, each in annotations.items() if each is not signature.empty
            }
            wrapper.__signature__ = signature  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_function_type_hints(fn)
    except Exception:  # noqa: BLE001  # a name in an annotation is unknown; FastMCP then uses the text as well
        return {}


def contain(fn: Function, *, threads: ThreadRunner | None, kind: str, what: str) -> AsyncFunction:
    """Wrap a component's function in an `async` function of the same signature that checks the result.

    See `as_async` for `fn` and `threads`, and `result_check` for `kind`, `what` and the errors of the wrapper.
    """
    return checked(as_async(fn, threads), result_check(kind, what))


def as_async(fn: Function, threads: ThreadRunner | None) -> AsyncFunction:
    """Return an `async` function that calls a component's function. Its body starts only when its result is awaited.

    `fn` may be `async def` or `def`. It may be a generator of either kind: its items become a list. It may return an
    awaitable. A plain `def` runs in a thread. Python cannot stop a thread, so a thread may run on after its call ends.

    Args:
        threads: the threads of this function. Each function has threads of its own, because FastMCP shares 40 threads
            between all functions, and 40 hanging calls of one function would block all others. None: the function runs
            on the event loop, one call after another.
    """
    if inspect.isfunction(fn) and fn.__code__.co_flags & inspect.CO_COROUTINE:
        return fn
    if threads is not None and not (inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn)):
        return wraps(fn)(_in_a_thread(fn, threads))

    @wraps(fn)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await _settled(fn(*args, **kwargs))

    return run


def result_check(kind: str, what: str) -> ResultCheck:
    """Return a function that completes and checks the result of a component's function.

    It awaits an awaitable, and makes a list of the items of a generator.

    Args:
        kind: "tool", "resource" or "prompt".
        what: the component's name for messages.

    Raises (the function):
        ToolError: a generator yields more than `GENERATOR_ITEMS` items.
        ToolError, ResourceError, PromptError: the result contains an object of an unknown type, a reference to itself,
            NaN or an infinity, or text that is not Unicode.
    """
    checks = {"tool": check_tool_result, "resource": check_contents}
    check_json = checks.get(kind, check_value)

    async def check(result: Any) -> Any:
        settled = await _settled(result)
        try:
            check_json(settled)
        except ValueError as error:  # the base class of PydanticSerializationError and UnicodeEncodeError
            text = no_json(what, settled, check_json)
            logger.warning("%s (%s)", text, error)
            raise ERRORS[kind](text, log_level=logging.DEBUG) from None
        return settled

    return check


def checked(run: AsyncFunction, check: ResultCheck) -> AsyncFunction:
    """Return an `async` function that calls `run` and checks its result."""

    @wraps(run)
    async def contained(*args: Any, **kwargs: Any) -> Any:
        result = await run(*args, **kwargs)
        # Most results are ASCII text. They need no further check.
        return result if type(result) is str and result.isascii() else await check(result)

    return contained


async def _settled(result: Any) -> Any:
    while inspect.isawaitable(result):  # a plain `def` may return a coroutine from its thread: two awaits
        result = await result
    if inspect.isasyncgen(result):
        return await _collect(result)
    return _drain(result, _Flag()) if inspect.isgenerator(result) else result


def mask_prompt_errors(fn: AsyncFunction, *, what: str) -> AsyncFunction:
    """Wrap a prompt's function so that its errors are logged once, and reach the client without their text.

    FastMCP itself shows the texts of errors in prompts even if the server masks errors. If the server does not mask
    them, the client gets the same text as from FastMCP.
    """

    @functools.wraps(fn)
    async def masked(*args: Any, **kwargs: Any) -> Any:
        try:
            return await fn(*args, **kwargs)
        except (FastMCPError, MCPError):
            raise
        except Exception as error:
            logger.exception("Error rendering %s", what)
            details = f": {error}" if get_context().fastmcp in SHOWING_ERRORS else ""
            raise PromptError(f"Error rendering {what}{details}", log_level=logging.DEBUG) from None

    return masked


class _Flag:
    """A flag that another thread reads. `threading.Event` could also wait for it, and costs ten times as much."""

    is_set = False


def _in_a_thread(fn: Function, threads: ThreadRunner) -> AsyncFunction:
    async def run(*args: Any, **kwargs: Any) -> Any:
        given_up = _Flag()

        def call() -> Any:
            result = fn(*args, **kwargs)
            return _drain(result, given_up) if inspect.isgenerator(result) else result

        try:
            result = await threads.run(call)
        finally:
            given_up.is_set = True
        return result if type(result) in _PLAIN else await _settled(result)

    return run


def _drain(items: Iterator[Any], given_up: _Flag) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if given_up.is_set:
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
            await asyncio.sleep(0)  # let other tasks run, because this generator may never wait
    return found


def _refuse_endless(found: list[Any]) -> None:
    if len(found) > GENERATOR_ITEMS:
        raise ToolError(f"Result too large: the generator yielded more than {GENERATOR_ITEMS} items")

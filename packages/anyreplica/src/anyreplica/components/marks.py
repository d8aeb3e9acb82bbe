"""The decorators `@check`, `@lifespan` and `@completion`: they mark functions that discovery finds."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from anyreplica.components.importing import MARK

Lifespan = Callable[[], AbstractAsyncContextManager[None]]


def lifespan(function: Callable[[], AsyncIterator[None]]) -> Lifespan:
    """Mark an async generator function that opens something, yields once, and closes it.

    A replica or worker runs the part before `yield` at its start, before the first request or job. It runs the part
    after `yield` when it stops. A server may have several lifespans: the one that was opened last is closed first. If a
    lifespan raises an exception before `yield`, the process does not start.

    Raises:
        TypeError: the function is not an async generator function, or it has parameters.

    Example:

        from collections.abc import AsyncIterator

        import httpx2
        from fastmcp.tools import tool

        from anyreplica import lifespan

        clients: list[httpx2.AsyncClient] = []

        @lifespan
        async def client() -> AsyncIterator[None]:
            async with httpx2.AsyncClient() as opened:
                clients[:] = [opened]
                yield

        @tool
        async def title(url: str) -> str:
            return (await clients[0].get(url)).text[:100]
    """
    if not inspect.isasyncgenfunction(function) or inspect.signature(function).parameters:
        raise TypeError("@lifespan needs an async function without arguments that yields once")
    opened = asynccontextmanager(function)
    setattr(opened, MARK, "lifespan")
    return opened


C = TypeVar("C", bound=Callable[..., Any])


def completion(fn: C) -> C:
    """Mark a function that suggests values for the arguments of prompts and resource templates.

    A server has at most one such function. The server calls the function with three arguments:

    - `ref`: the prompt or the resource template.
    - `argument`: the argument's name, and the text that the user has typed so far.
    - `context`: the arguments that already have values.

    Example:

        from mcp_types import CompletionArgument

        from anyreplica import completion

        @completion
        async def suggest(ref: object, argument: CompletionArgument, context: object) -> list[str]:
            return ["paris", "parma"] if argument.name == "city" else []
    """
    setattr(fn, MARK, "completion")
    return fn


F = TypeVar("F", bound=Callable[[], Awaitable[object]])


@dataclass(frozen=True)
class Check:
    """A check of something that tools need.

    Attributes:
        name: the check's name in the reply of `/health/deep`.
        fn: the author's function. It raises if the check fails.
        seconds: time limit of the check.
    """

    name: str
    fn: Callable[[], Awaitable[object]]
    seconds: float


@overload
def check(fn: F) -> F: ...
@overload
def check(*, name: str = "", seconds: float = 2.0) -> Callable[[F], F]: ...
def check(fn: F | None = None, *, name: str = "", seconds: float = 2.0) -> F | Callable[[F], F]:
    """Mark an async function without arguments as a check of something that tools need. `/health/deep` runs all checks.

    A check passes if the function returns. A check fails if the function raises or exceeds its time limit. Only the log
    shows the exception.

    Args:
        name: name of the check in the reply. The default is the function's name.
        seconds: time limit of the check, in seconds.

    Raises:
        TypeError: the function is not async, or it has parameters.

    Example:

        from anyreplica import check, downstream

        @check(seconds=1)
        async def price_service() -> None:
            await downstream.get("https://prices.example.com/health")
    """

    def mark(function: F) -> F:
        if not inspect.iscoroutinefunction(function) or inspect.signature(function).parameters:
            raise TypeError("@check needs an async function without arguments")
        setattr(function, MARK, Check(name or function.__name__, function, seconds))
        return cast("F", function)

    return mark if fn is None else mark(fn)

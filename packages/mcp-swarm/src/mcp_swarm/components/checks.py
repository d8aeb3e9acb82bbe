"""For tool authors: say what tools need, so that `/health/deep` can tell whether it is there."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, cast, overload

from mcp_swarm.components.marks import MARK

F = TypeVar("F", bound=Callable[[], Awaitable[object]])


@dataclass(frozen=True)
class Check:
    """One thing that tools need: `fn` looks for so many `seconds` whether it is there."""

    name: str
    fn: Callable[[], Awaitable[object]]
    seconds: float


@overload
def check(fn: F) -> F: ...
@overload
def check(*, name: str = "", seconds: float = 2.0) -> Callable[[F], F]: ...
def check(fn: F | None = None, *, name: str = "", seconds: float = 2.0) -> F | Callable[[F], F]:
    """Mark an async function without arguments as a check of something that tools need. `/health/deep` runs it.

    A check passes if it returns. It fails if it raises or takes too long; only the log shows what it raised.

    Args:
        name: of the check in the reply; the default is the function's.
        seconds: the longest that it may take.

    Raises:
        TypeError: the function isn't async, or takes arguments.

    Example:

        from mcp_swarm import check, downstream

        @check(seconds=1)
        async def price_service() -> None:
            await downstream.get("https://prices.example.com/health")
    """

    def mark(function: F) -> F:
        if not inspect.iscoroutinefunction(function) or inspect.signature(function).parameters:
            raise TypeError("a check is an async function without arguments")
        setattr(function, MARK, Check(name or function.__name__, function, seconds))
        return cast("F", function)

    return mark if fn is None else mark(fn)

"""The decorator `@check`: a function of a tool author tests whether a service that the tools need can be reached."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, cast, overload

from anyreplica.components.importing import MARK

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

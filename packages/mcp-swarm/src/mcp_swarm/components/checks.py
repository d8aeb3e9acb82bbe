"""For tool authors: say what tools need, so that `/health/deep` can tell whether it is there.

    from mcp_swarm.components.checks import check

    @check
    async def database() -> None:
        await pool.fetchval("SELECT 1")

A check that returns is good; one that raises, or takes too long, is not. What it raises is for the log only.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar, cast, overload

F = TypeVar("F", bound=Callable[[], Awaitable[object]])

_MARK = "__check__"


@dataclass(frozen=True)
class Check:
    """One thing that tools need.

    Attributes:
        name: in the reply.
        fn: looks whether it is there.
        seconds: its time.
    """

    name: str
    fn: Callable[[], Awaitable[object]]
    seconds: float


@overload
def check(fn: F) -> F: ...
@overload
def check(*, name: str = "", seconds: float = 2.0) -> Callable[[F], F]: ...
def check(fn: F | None = None, *, name: str = "", seconds: float = 2.0) -> F | Callable[[F], F]:
    """Mark an async function without arguments as a check.

    Args:
        name: in the reply; else the function's.
        seconds: after which it isn't good.
    """

    def mark(function: F) -> F:
        if not inspect.iscoroutinefunction(function) or inspect.signature(function).parameters:
            raise TypeError("a check is an async function without arguments")
        setattr(function, _MARK, Check(name or function.__name__, function, seconds))
        return cast("F", function)

    return mark if fn is None else mark(fn)


def check_of(value: object) -> Check | None:
    """What `@check` says of a function, if it marks it."""
    found = getattr(value, _MARK, None) if callable(value) else None
    return found if isinstance(found, Check) else None

"""`@job`: an async function that takes longer than a call should."""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from fastmcp.tools import FunctionTool
from fastmcp.utilities.types import get_cached_typeadapter
from pydantic import ValidationError

from mcp_swarm.components import problems

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])

_META = "__job__"


class Progress:
    """How a job reports how far it is: `await progress(40, "four of ten pages")`.

    A function gets one through a parameter of this type, which isn't among the arguments that callers give.
    """

    async def __call__(self, percent: float, message: str = "") -> None:
        """Report.

        Args:
            percent: 0 to 100.
            message: what a person may read of it.
        """


@dataclass(frozen=True)
class JobMeta:
    """What an author says of a job."""

    name: str | None
    timeout: float | None
    retries: int
    retention: float | None


@overload
def job(function: F) -> F: ...


@overload
def job(
    *, name: str | None = None, timeout: float | None = None, retries: int = 0, retention: float | None = None
) -> Callable[[F], F]: ...


def job(
    function: F | None = None,
    *,
    name: str | None = None,
    timeout: float | None = None,
    retries: int = 0,
    retention: float | None = None,
) -> F | Callable[[F], F]:
    """Mark an async function as a job: `@job`, or `@job(timeout=600, retries=2)`.

    A job may run more than once (its worker died, Redis was away when it ended), so what it does must bear that.

    Args:
        name: what callers know it by; the function's own without.
        timeout: seconds that it may run; `JOBS_TIMEOUT_SECONDS` without.
        retries: how often it is begun again after it raised.
        retention: seconds that its result is kept; `JOBS_RETENTION_SECONDS` without.
    """
    meta = JobMeta(name, timeout, retries, retention)

    def mark(marked: F) -> F:
        setattr(marked, _META, meta)
        return marked

    return mark if function is None else mark(function)


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """What a function returns that blocks, run in a thread.

    A thread can't be stopped. A job that is stopped meanwhile waits for it, so that what it uses is closed after it.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def meta_of(value: object) -> JobMeta | None:
    """What `@job` has put on a function; None on anything else."""
    meta = getattr(value, _META, None)
    return meta if isinstance(meta, JobMeta) else None


@dataclass(frozen=True)
class Job:
    """A job as it can be submitted and run."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON schema of its arguments."""
    timeout: float | None
    retries: int
    retention: float | None
    _function: Callable[..., Awaitable[Any]]
    _validated: Callable[[Mapping[str, Any]], dict[str, Any]]
    _progress: tuple[str, ...]

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them.

        Raises:
            ValueError: they don't fit the schema; the text is for the caller.
        """
        if text := problems.unknown(arguments, self.schema.get("properties", {})):
            raise ValueError(text)
        try:
            return self._validated(arguments)
        except ValidationError as error:
            raise ValueError(problems.told(error)) from None

    def run(self, arguments: Mapping[str, Any], progress: Progress) -> Awaitable[Any]:
        """Run it on checked arguments."""
        return self._function(**arguments, **dict.fromkeys(self._progress, progress))


def made(function: Callable[..., Any], meta: JobMeta) -> Job:
    """The job that a marked function is.

    Raises:
        ValueError, TypeError: it can't be one.
    """
    if not inspect.iscoroutinefunction(function):
        raise ValueError("a job is an async function (async def), so that it can be stopped")
    for what, seconds in (("timeout", meta.timeout), ("retention", meta.retention)):
        if seconds is not None and not 0 < seconds < math.inf:
            raise ValueError(f"{what}={seconds} is not a time in seconds")
    if meta.retries < 0:
        raise ValueError(f"retries={meta.retries} is less than none")
    signature = inspect.signature(function, eval_str=True)
    progress = tuple(name for name, each in signature.parameters.items() if each.annotation is Progress)
    taken = [each for name, each in signature.parameters.items() if name not in progress]

    def given(**arguments: Any) -> dict[str, Any]:
        return arguments

    # Pydantic validates a call by making it, so it gets a function of the same parameters that only returns them.
    given.__signature__ = signature.replace(parameters=taken)  # type: ignore[attr-defined]
    given.__annotations__ = {each.name: each.annotation for each in taken if each.annotation is not each.empty}
    given.__doc__ = function.__doc__
    name = meta.name or function.__name__
    tool = FunctionTool.from_function(given, name=name)  # for the schema, and FastMCP's checks of it
    validated = get_cached_typeadapter(given).validator.validate_python
    description = tool.description or ""
    return Job(
        name, description, tool.parameters, meta.timeout, meta.retries, meta.retention, function, validated, progress
    )

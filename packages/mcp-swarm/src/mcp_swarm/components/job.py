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
from mcp_swarm.components.marks import MARK

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


class Progress:
    """Reports how far a job is. A job gets one through a parameter of this type; callers don't see that parameter.

    Example:

        from mcp_swarm import Progress, job

        @job
        async def digest(pages: int, progress: Progress) -> int:
            for page in range(pages):
                await progress(100 * page / pages, f"{page} of {pages} pages")
            return pages
    """

    async def __call__(self, percent: float, message: str = "") -> None:
        """Report `percent` (0 to 100), and a message that a person may read."""


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
    """Mark an async function as a job: clients submit it, ask for its status, and fetch its result later.

    A job may run more than once: its worker may die, or Redis may be away when it ends. Write it so that a second run
    does no harm.

    Args:
        name: for callers; the default is the function's.
        timeout: seconds that it may run; the default is `JOBS_TIMEOUT_SECONDS`.
        retries: how often it starts again after it raised.
        retention: seconds that its result is kept; the default is `JOBS_RETENTION_SECONDS`.

    Example:

        from mcp_swarm import job

        @job(timeout=600, retries=2)
        async def count_words(text: str) -> int:
            return len(text.split())
    """
    meta = JobMeta(name, timeout, retries, retention)

    def mark(marked: F) -> F:
        setattr(marked, MARK, meta)
        return marked

    return mark if function is None else mark(function)


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Run a function that blocks in a thread, and return what it returns.

    A thread can't be stopped. If its caller is cancelled meanwhile, the caller waits for the thread, so that nothing is
    closed that the thread still uses.

    Example:

        import sqlite3

        from mcp_swarm import in_thread, job

        @job
        async def total(file: str) -> int:
            return await in_thread(lambda: sqlite3.connect(file).execute("SELECT COUNT(*) FROM sales").fetchone()[0])
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


@dataclass(frozen=True)
class Job:
    """A job as it can be submitted and run; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]
    meta: JobMeta
    _function: Callable[..., Awaitable[Any]]
    _validated: Callable[[Mapping[str, Any]], dict[str, Any]]
    _progress: tuple[str, ...]

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them; ValueError tells the caller why they don't fit the schema."""
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
    """The job that a marked function is; raises ValueError or TypeError if it can't be one."""
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
    return Job(name, tool.description or "", tool.parameters, meta, function, validated, progress)

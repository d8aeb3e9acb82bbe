"""The decorator `@job`, for async functions that take longer than a tool call should."""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from fastmcp.tools import FunctionTool
from fastmcp.utilities.types import get_cached_typeadapter
from pydantic import ValidationError

from anyreplica.components import problems
from anyreplica.components.importing import MARK

SUBMIT_JOB = "submit_job"
"""Name of the tool that submits any job. A call of this tool counts as a call of the job that its arguments name."""
JOB_TOOLS = (SUBMIT_JOB, "job_status", "job_result", "cancel_job")
"""The names of the four general tools for jobs."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


class Progress:
    """The progress reporter of a job.

    A job gets the reporter through a parameter of this type. Clients do not see this parameter.

    Example:

        from anyreplica import Progress, job

        @job
        async def digest(pages: int, progress: Progress) -> int:
            for page in range(pages):
                await progress(100 * page / pages, f"{page} of {pages} pages")
            return pages
    """

    async def __call__(self, percent: float, message: str = "") -> None:
        """Report the progress in percent (0 to 100), with an optional message for people."""


@dataclass(frozen=True)
class JobMeta:
    """The options that an author passed to `@job`."""

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
    """Mark an async function as a job: clients submit the job, ask for its status, and get its result later.

    A job may run more than once, because a worker may die, or because Redis cannot be reached when the job ends. Write
    the function so that a second run does no harm.

    Args:
        name: name of the job for clients. The default is the function's name.
        timeout: time limit of one attempt, in seconds. The default is `JOBS_TIMEOUT_SECONDS`.
        retries: number of further attempts after an attempt raised an exception.
        retention: seconds for which the result is kept. The default is `JOBS_RETENTION_SECONDS`.

    Example:

        from anyreplica import job

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
    """Run a blocking function in a thread and return its result.

    Python cannot stop a thread. If the calling task is cancelled, it waits until the thread ends. So the task does not
    close anything that the thread still uses.

    Example:

        import sqlite3

        from anyreplica import in_thread, job

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
    """A job, ready to be submitted and run. `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]
    meta: JobMeta
    _function: Callable[..., Awaitable[Any]]
    _validated: Callable[[Mapping[str, Any]], dict[str, Any]]
    _progress: tuple[str, ...]

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Validate arguments and return them converted for the function.

        Raises:
            ValueError: the arguments do not match the schema. The message is for the client.
        """
        if text := problems.unknown(arguments, self.schema.get("properties", {})):
            raise ValueError(text)
        try:
            return self._validated(arguments)
        except ValidationError as error:
            known = self.schema.get("properties", {})
            raise ValueError(problems.with_known(problems.describe_validation_error(error), arguments, known)) from None

    def run(self, arguments: Mapping[str, Any], progress: Progress) -> Awaitable[Any]:
        """Call the function with arguments that `check` returned."""
        return self._function(**arguments, **dict.fromkeys(self._progress, progress))


def make_job(function: Callable[..., Any], meta: JobMeta) -> Job:
    """Make a job from a marked function; raise ValueError or TypeError if the function cannot be a job."""
    if not inspect.iscoroutinefunction(function):
        raise ValueError("@job needs an async function (async def), so that a worker can cancel the job")
    for what, seconds in (("timeout", meta.timeout), ("retention", meta.retention)):
        if seconds is not None and not 0 < seconds < math.inf:
            raise ValueError(f"{what}={seconds} must be a finite number of seconds greater than 0")
    if meta.retries < 0:
        raise ValueError(f"retries={meta.retries} must be 0 or more")
    signature = inspect.signature(function, eval_str=True)
    progress = tuple(name for name, each in signature.parameters.items() if each.annotation is Progress)
    parameters = [each for name, each in signature.parameters.items() if name not in progress]

    def return_arguments(**arguments: Any) -> dict[str, Any]:
        return arguments

    # Pydantic validates arguments and then calls the function. So pydantic gets a function with the same parameters
    # that only returns its arguments.
    return_arguments.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return_arguments.__annotations__ = {
        each.name: each.annotation for each in parameters if each.annotation is not each.empty
    }
    return_arguments.__doc__ = function.__doc__
    name = meta.name or function.__name__
    tool = FunctionTool.from_function(return_arguments, name=name)  # FastMCP makes the schema and checks the function
    validated = get_cached_typeadapter(return_arguments).validator.validate_python
    return Job(name, tool.description or "", tool.parameters, meta, function, validated, progress)

"""The limits of the memory for the arguments and results of tools with `task=True`, which FastMCP keeps for a time."""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp.exceptions import ToolError
from pydantic_core import to_json

from anyreplica.auth.caller import ANYBODY
from anyreplica.components.containment import wraps
from anyreplica.http.limits import Shares
from anyreplica.shared.expiring import Expiring

KEPT_SECONDS = 15 * 60
"""Time for which FastMCP keeps a task after its end, in seconds. It is a default of Docket that no setting changes."""
_TASK_BYTES = 2048
"""Bytes that a task counts in addition to its arguments and its result."""
_COPIES = 2
"""FastMCP keeps the arguments of a task twice: for the first round, and for later ones. It encodes a result as text."""
_UNKNOWN = ("unknown:", "credentials:")
"""Begin the owners of callers that only middleware of the author knows, see `auth.own_authentication`."""


class TaskBytes:
    """Counts the bytes that FastMCP keeps for the tasks of this process, until they expire there.

    A replica counts the arguments of the tasks that its clients start, and the results of those that its worker runs.
    The queue itself may be in Redis. So all replicas together keep at most `most` times the number of replicas.

    Args:
        most: JOBS_MAX_TASK_BYTES.
    """

    def __init__(self, most: int) -> None:
        self._shares = Shares(most)
        self._sizes: Expiring[tuple[str, int]] = Expiring(lambda kept: self._shares.add(kept[0], -kept[1]))
        self._number = 0

    @property
    def used(self) -> int:
        """Number of bytes that are kept."""
        return self._shares.used

    def keep_arguments(self, owner: str | None, arguments: dict[str, Any]) -> str:
        """Count the arguments of a task. Return a name for `release`.

        Raises:
            ToolError: a limit leaves no room for the arguments.
        """
        size = len(to_json(arguments, serialize_unknown=True, bytes_mode="base64"))
        return self._keep(owner, size, "the arguments")

    def keep_result(self, owner: str | None, result: Any) -> None:
        """Count the result of a task. FastMCP stores the value that the function returned, as a pickle.

        Raises:
            ToolError: a limit leaves no room for the result.
        """
        import cloudpickle  # type: ignore[import-untyped]  # noqa: PLC0415  # a process that runs tasks has it

        self._keep(owner, len(cloudpickle.dumps(result)), "the result")

    def release(self, name: str) -> None:
        """Count no more what became no task."""
        self._sizes.remove(name)

    def _keep(self, owner: str | None, size: int, what: str) -> str:
        self._sizes.expire()
        caller, cost = _caller_of(owner), _TASK_BYTES + _COPIES * size
        if cost > self._shares.room(caller):
            raise self._refusal(what)
        self._number += 1
        name = str(self._number)
        self._shares.add(caller, cost)
        self._sizes.add(name, (caller, cost), KEPT_SECONDS)
        return name

    def _refusal(self, what: str) -> ToolError:
        return ToolError(
            f"No room for {what} of this task: the limits are {self._shares.share} bytes for all tasks of one caller, "
            f"and {self._shares.most} bytes for a replica (JOBS_MAX_TASK_BYTES). Tasks are kept for "
            f"{KEPT_SECONDS // 60} minutes after their end; retry later."
        )

    def limited(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return the function of a tool. If it runs as a task, and a limit leaves no room for its result, it fails."""

        @wraps(function)
        async def run(*args: Any, **kwargs: Any) -> Any:
            result = await function(*args, **kwargs)
            if "fastmcp_tasks.context" not in sys.modules:
                return result  # this process runs no tasks
            from fastmcp_tasks.context import get_task_context  # noqa: PLC0415  # see the line above

            task = get_task_context()
            if task is not None:
                self.keep_result(task.task_scope, result)
            return result

        return run


def _caller_of(owner: str | None) -> str:
    """Return the caller that the tasks of an owner count for.

    All users of a gateway with one key are one caller, as for the other limits. So are all callers that this package
    does not know: some have another owner in each request.
    """
    caller = (owner or ANYBODY).partition(">")[0]
    return ANYBODY if caller.startswith(_UNKNOWN) else caller

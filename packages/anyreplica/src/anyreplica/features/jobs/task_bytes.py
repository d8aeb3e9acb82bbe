"""The limits of the memory for the arguments and results of tools with `task=True`, which FastMCP keeps for a time."""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

from fastmcp.exceptions import ToolError
from pydantic_core import to_json

from anyreplica.components.containment import wraps
from anyreplica.http.limits import Shares
from anyreplica.shared.expiring import Expiring

KEPT_SECONDS = 15 * 60
"""Time for which FastMCP keeps a task after its end, in seconds. It is a default of Docket that no setting changes."""
_ANONYMOUS = ""
"""The caller of the tasks of all clients without authentication."""
_TASK_BYTES = 2048
"""Bytes that a task counts in addition to its arguments and its result."""
_COPIES = 2
"""FastMCP keeps the arguments of a task twice: for the first round, and for later ones. It encodes a result as text."""


class TaskBytes:
    """Counts the bytes that FastMCP keeps for the tasks of this process, until they expire there.

    A replica counts the arguments of the tasks that its clients start, and the results of those that its worker runs.
    The queue itself may be in Redis. So all replicas together keep at most `most` times the number of replicas.

    Args:
        most: JOBS_MAX_TASK_BYTES.
    """

    def __init__(self, most: int) -> None:
        self._shares = Shares(most)
        self._kept: Expiring[tuple[str, int]] = Expiring(lambda kept: self._shares.add(kept[0], -kept[1]))
        self._number = 0

    @property
    def used(self) -> int:
        """Number of bytes that are kept."""
        return self._shares.used

    def has_room(self, caller: str | None, value: Any) -> bool:
        """Return whether the arguments or the result of a task may be kept."""
        self._kept.expire()
        return _cost(value) <= self._shares.room(caller or _ANONYMOUS)

    def keep(self, caller: str | None, value: Any) -> None:
        """Count the arguments or the result of a task."""
        self._number += 1
        size = _cost(value)
        self._shares.add(caller or _ANONYMOUS, size)
        self._kept.add(str(self._number), (caller or _ANONYMOUS, size), KEPT_SECONDS)

    def refusal(self, what: str) -> ToolError:
        """Return the error for arguments or a result that a limit leaves no room for."""
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
                if not self.has_room(task.task_scope, result):
                    raise self.refusal("the result")
                self.keep(task.task_scope, result)
            return result

        return run


def _cost(value: Any) -> int:
    return _TASK_BYTES + _COPIES * len(to_json(value, serialize_unknown=True, bytes_mode="base64"))

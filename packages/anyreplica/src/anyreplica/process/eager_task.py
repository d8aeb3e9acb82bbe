"""Tasks that start to run at once."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

start: Callable[..., asyncio.Task[Any]] = asyncio.Task
if sys.version_info >= (3, 12):
    start = partial(asyncio.Task, eager_start=True)
"""Run a coroutine in a new task.

From Python 3.12 on, the task runs at once, up to its first wait. Most tasks never wait. The keyword
arguments are those of `asyncio.Task`: `loop` and `context`. This function does not use the task factory of the loop,
because that factory is for the tasks of components (`anyreplica.process.task_exits`).
"""

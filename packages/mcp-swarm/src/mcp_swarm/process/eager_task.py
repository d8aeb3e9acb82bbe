"""Tasks that begin at once."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

start: Callable[..., asyncio.Task[Any]] = asyncio.Task
if sys.version_info >= (3, 12):
    start = partial(asyncio.Task, eager_start=True)
"""Runs a coroutine in a task of its own, at once up to its first wait, where Python can; most never wait.

It takes the keyword arguments of `asyncio.Task`: `loop` and `context`. It doesn't use the loop's task factory, which is
for the tasks of components (`mcp_swarm.process.task_exits`).
"""

"""Tools that fork processes."""

import asyncio
import multiprocessing
import os
import socket
from concurrent.futures import ProcessPoolExecutor

from fastmcp.tools import tool

_FORK = multiprocessing.get_context("fork")
_pool: list[ProcessPoolExecutor] = []


@tool
async def pids() -> list[int]:
    """Return the process ids of this replica and of the two processes of its pool, which the first call forks."""
    if not _pool:
        _pool.append(ProcessPoolExecutor(2, mp_context=_FORK))
    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(_pool[0], os.getpid) for _ in range(8)))
    return [os.getpid(), *(process.pid for process in multiprocessing.active_children() if process.pid)]


@tool
def own_port() -> list[int]:
    """Return the port of a socket of this tool, as this process and a forked process see it."""
    with socket.create_server(("127.0.0.1", 0)) as own:
        ours, theirs = _FORK.Pipe()
        child = _FORK.Process(target=lambda: theirs.send(own.getsockname()[1]))
        child.start()
        seen = ours.recv()
        child.join()
        return [own.getsockname()[1], seen]

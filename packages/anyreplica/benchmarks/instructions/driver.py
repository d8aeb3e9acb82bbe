"""`python -m benchmarks.instructions.driver SCENARIO BLOCKS CALLS LIBRARY` calls a server inside of its own process.

The server is the one of the exchange study, with its event loop and its protocol class. In the place of a socket there
is an object that keeps what the server writes. So each call costs the same instructions: there is no kernel, no other
process, and no data that arrives in parts.
"""

import asyncio
import ctypes
import gc
import logging
import sys
from typing import Any, cast

import uvicorn
import uvloop
from uvicorn.server import ServerState

from anyreplica.features.audit import log as audit_log
from anyreplica.features.keys import key
from anyreplica.process import logs, replica
from anyreplica.process.replica import uvicorn_options
from benchmarks import floor
from benchmarks.scenarios import FLOOR, PAGES, SCENARIOS, Scenario
from server.server import create_app

_NEVER = 3600.0
_PAUSE_SECONDS = 1.0


class Memory(asyncio.Transport):
    """A connection whose other end is this process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, end: bytes) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 8150)})
        self.end = end
        """The last bytes of a reply. The end of a JSON-RPC message is a brace; a head ends with an empty line."""
        self.reply = b""
        """What the server has written since the last request."""
        self.replied: asyncio.Future[None] = loop.create_future()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.reply += data
        if self.reply.endswith(self.end):
            self.replied.set_result(None)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass


async def call(scenario: Scenario, blocks: int, calls: int, library: ctypes.CDLL) -> None:
    """Call a scenario's server: first a block of `calls` calls that do not count, then `blocks` blocks that do.

    Raises:
        ValueError: a reply is wrong.
    """
    config = uvicorn.Config(**_options(scenario))
    config.load()
    lifespan = config.lifespan_class(config)
    await lifespan.startup()
    loop = asyncio.get_running_loop()
    transport = Memory(loop, scenario.end)
    protocol = cast("Any", config.http_protocol_class)(
        config=config, server_state=ServerState(), app_state=lifespan.state
    )
    protocol.connection_made(transport)
    for block in range(1 + blocks):
        gc.collect()
        if block:
            library.count()
        for _ in range(calls):
            transport.reply = b""
            transport.replied = loop.create_future()
            protocol.data_received(scenario.request)
            await transport.replied
        await _write_logs()
        library.stop()
    head, _, body = transport.reply.partition(b"\r\n\r\n")
    if wrong := scenario.fault(head.split()[1], body):
        raise ValueError(wrong)
    protocol.connection_lost(None)
    await lifespan.shutdown()


def _stop_clocks() -> None:
    """Let work be done after a number of calls, and never after a time.

    Valgrind makes a process fifty times slower, so what a replica does every 50 ms would count for a few calls only.
    """
    replica.TRIM_SECONDS = key.POLL_SECONDS = _NEVER
    logs.FLUSH_SECONDS = audit_log.WRITE_SECONDS = _NEVER
    sys.setswitchinterval(_NEVER)  # a thread keeps Python's lock until it waits


async def _write_logs() -> None:
    """Write the waiting lines of the logs, so that those of all counted calls count, and no others."""
    await asyncio.sleep(_PAUSE_SECONDS)  # the thread of the audit log ends its batch
    for handler in logging.getLogger().handlers:
        handler.flush()


def _options(scenario: Scenario) -> dict[str, Any]:
    if scenario is FLOOR:
        return floor.options(floor.app)
    app = create_app()
    return uvicorn_options(app.settings, app)


if __name__ == "__main__":
    _stop_clocks()
    named = {each.name: each for each in (FLOOR, *SCENARIOS, *PAGES)}
    uvloop.run(call(named[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3]), ctypes.CDLL(sys.argv[4])))

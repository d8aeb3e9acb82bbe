"""`python -m tests.passed_modules PROTOCOL` prints the modules that each of five calls of `echo` uses."""

import asyncio
import sys
from types import FrameType
from typing import Any

import uvicorn

from anyreplica.process.replica import uvicorn_options
from server.server import create_app
from tests.damage.wire import handshake, stateless

_OURS = ("anyreplica", "server")
_PROTOCOLS = {"handshake": handshake, "stateless": stateless}


async def _passed(port: int, protocol: str) -> set[str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = _PROTOCOLS[protocol]("tools/call", {"name": "echo", "arguments": {"message": "hello"}})
    rounds = []
    for number in range(8):
        found: set[str] = set()

        def note(frame: FrameType, event: str, _: Any, found: set[str] = found) -> None:
            if event == "call":
                found.add(frame.f_globals.get("__name__", ""))

        sys.setprofile(note if number > 2 else None)  # The first calls do work that later calls do not repeat.
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        assert b"hello" in await reader.readexactly(length)
        sys.setprofile(None)
        rounds.append({name for name in found if name.startswith(_OURS)})
        await asyncio.sleep(0.1)
    writer.close()
    return set.intersection(*rounds[3:])


async def _main(protocol: str) -> None:
    app = create_app()
    server = uvicorn.Server(uvicorn.Config(**uvicorn_options(app.settings, app)))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
        await asyncio.sleep(0.05)
    print(*sorted(await _passed(app.settings.mcp_port, protocol)), sep="\n", flush=True)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))

"""Failing calls leave nothing for the garbage collector."""

import asyncio
import gc
import json
import os
import sys
from typing import Any

import pytest
from starlette.types import Message, Scope

from conftest import run
from tests.calls import BOTH, VERSION
from tests.replicas import Family, asking

pytestmark = pytest.mark.servers


_FASTMCP_PATH: dict[str, Any] = {"_meta": {"progressToken": -1}}
_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown tool": ("tools/call", {"name": "nope", "arguments": {}}),
    "wrong argument": ("tools/call", {"name": "echo", "arguments": {"message": 3}}),
    "unknown arguments": ("tools/call", {"name": "echo", "arguments": {str(number): 3 for number in range(50)}}),
    "tool's error": ("tools/call", {"name": "echo", "arguments": {"message": "a", "repeat": 99}}),
    "tool that raises": ("tools/call", {"name": "raises", "arguments": {}}),
    "out of time": ("tools/call", {"name": "never_ends_by_default", "arguments": {}}),
    "disconnected": ("tools/call", {"name": "never_ends_by_default", "arguments": {}}),
    "out of time, FastMCP path": ("tools/call", {"name": "never_ends_by_default", "arguments": {}, **_FASTMCP_PATH}),
    "disconnected, FastMCP path": ("tools/call", {"name": "never_ends_by_default", "arguments": {}, **_FASTMCP_PATH}),
    "disconnected, subscription": ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    "unknown resource": ("resources/read", {"uri": "x://nope"}),
    "unknown prompt": ("prompts/get", {"name": "nope"}),
    "prompt without its arguments": ("prompts/get", {"name": "summary", "arguments": {}}),
    "unknown method": ("nope/nope", {}),
    "wrong params": ("tools/call", {"name": 3}),
    "long name": ("tools/call", {"name": "x" * 5000}),
    "no JSON": ("", {}),
}
_TIMES = 20


@pytest.mark.parametrize("version", [pytest.param("2025-11-25", marks=pytest.mark.slow), "2026-07-28"])
def test_no_kind_of_call_leaves_cycles(version: str) -> None:
    """No kind of failing call leaves a reference cycle, which would hold megabytes of arguments for a while."""
    settings = {"MCP_COMPONENTS": "server,tests.packs.hostile", "CALL_TIMEOUT_SECONDS": "0.05", "LOG_LEVEL": "ERROR"}
    done = run(sys.executable, "-m", "tests.attacks.test_garbage", version, **settings)
    left = json.loads(done.stdout.splitlines()[-1])
    assert left == dict.fromkeys(_CALLS, 0)


async def _count(version: str) -> dict[str, int]:
    """Return, for each kind of call, the number of objects that one call leaves for the garbage collector."""
    from uvicorn import Config
    from uvicorn.lifespan.on import LifespanOn

    from server.server import create_app as factory

    config = Config(factory(), log_config=None, interface="asgi3", proxy_headers=False)
    config.load()
    lifespan = LifespanOn(config)
    await lifespan.startup()
    left = {}
    for kind, (method, params) in _CALLS.items():
        for _ in range(3):  # some objects are made only once
            await _call(config.loaded_app, version, kind, method, params)
        await asyncio.sleep(0.1)  # calls beyond their time limit end during this pause
        gc.collect()
        gc.disable()
        for _ in range(_TIMES):
            await _call(config.loaded_app, version, kind, method, params)
        await asyncio.sleep(0.1)
        left[kind] = gc.collect() // _TIMES
        gc.enable()
    return left


async def _call(app: Any, version: str, kind: str, method: str, params: dict[str, Any]) -> None:
    family: Family = "stateless" if version == VERSION else "handshake"
    asked = asking(family, method, {**params}, **params.get("_meta", {}))
    headers = {**asked["headers"], "Host": "localhost", "Accept": BOTH, "MCP-Protocol-Version": version}
    body = json.dumps(asked["json"]).encode() if method else b"{"
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), str(value).encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
        "state": {},
    }
    answered = asyncio.Event()
    parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if parts:
            return parts.pop()
        if not kind.startswith("disconnected"):
            await answered.wait()
        return {"type": "http.disconnect"}

    async def send(_: Message) -> None:
        answered.set()

    await asyncio.Task(app(scope, receive, send))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_count(sys.argv[1]))), flush=True)
    os._exit(0)

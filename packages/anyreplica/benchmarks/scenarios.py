"""The scenarios of the exchange study: request, component pack, expected reply, and target."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from benchmarks.expectation import fault
from benchmarks.wire import Family, encode


@dataclass(frozen=True)
class Scenario:
    """One kind of request and the expected reply."""

    name: str
    """Name for `--only`."""
    title: str
    """Name in tables."""
    pack: str
    """Package below `benchmarks.packs` that the server serves; empty: the floor."""
    request: bytes
    expected: dict[str, Any]
    """Members that the reply must have; see `benchmarks.expectation`."""
    target: float | None = None
    """Maximum CPU time per request, as a multiple of the floor's."""
    key: str = ""
    """API key of the caller. With a key, the server authenticates, limits the rate, and writes an audit log."""
    other: bytes = b""
    """Second request that each connection sends in turns with the first one; the reply is the same."""
    end: bytes = b"}"
    """The last bytes of the reply."""

    def fault(self, status: bytes, body: bytes) -> str:
        """Return what is wrong with a reply; empty if it is as expected."""
        if self.end != b"}" and status == b"200":
            return "" if body.endswith(self.end) else "wrong reply: its end is missing"
        return fault(self.expected, status, body)


MESSAGE = "hello"
"""Argument of each call."""


def _call(
    name: str,
    title: str,
    pack: str,
    tool: str,
    *,
    target: float | None = None,
    family: Family = Family.HANDSHAKE,
    text: str = MESSAGE,
    structured: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    key: str = "",
) -> Scenario:
    params: dict[str, Any] = {"name": tool, "arguments": {"message": MESSAGE}}
    if meta:
        params["_meta"] = meta
    request = encode("tools/call", params, family=family, key=key)
    result = {
        "content": [{"type": "text", "text": text}],
        "structuredContent": structured or {"result": text},
        "isError": False,
    }
    return Scenario(name, title, pack, request, _reply(result, family), target, key)


def _reply(result: dict[str, Any], family: Family) -> dict[str, Any]:
    kind = {"resultType": "complete"} if family is Family.STATELESS else {}
    return {"jsonrpc": "2.0", "id": 1, "result": {**result, **kind}}


def _list(name: str, title: str, family: Family) -> Scenario:
    tools = [{"name": f"find_{number:02}", "inputSchema": {"type": "object"}} for number in range(20)]
    return Scenario(
        name, title, "catalogue", encode("tools/list", family=family), _reply({"tools": tools}, family), 2.0
    )


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: benchmark\r\n\r\n".encode("ascii")


def _discover() -> Scenario:
    result = {"supportedVersions": [Family.STATELESS.value], "capabilities": {"tools": {}}}
    request = encode("server/discover", family=Family.STATELESS)
    return Scenario("discover", "server/discover", "catalogue", request, _reply(result, Family.STATELESS), 2.0)


_MODEL = {"message": MESSAGE, "length": 5, "words": [MESSAGE]}
_MODEL_TEXT = '{"message":"hello","length":5,"words":["hello"]}'

FLOOR = _call("floor", "floor: bare ASGI, orjson", "", "echo")
ECHO = _call("echo", "echo, handshake protocol", "echo", "echo", target=1.3)
_HEADS = _call("heads", "echo, 2026-07-28, each head another", "echo", "echo", family=Family.STATELESS)

_KEY = "benchmark-" * 6
"""A key of this study's own servers. It is always the same, because processes share it."""

SCENARIOS = (
    ECHO,
    _call("echo-2026", "echo, 2026-07-28", "echo", "echo", family=Family.STATELESS, target=1.3),
    _call("echo-200", "echo on a server with 200 tools, handshake protocol", "echo_200", "echo", target=1.6),
    _call(
        "echo-200-2026",
        "echo on a server with 200 tools, 2026-07-28",
        "echo_200",
        "echo",
        family=Family.STATELESS,
        target=1.6,
    ),
    # The target of the echo on a server with 200 tools plus 25 µs, as a multiple of a floor of 28 µs.
    _call("secured", "echo with key, rate and audit log", "echo", "echo", target=2.5, key=_KEY),
    # 1.5 times the target of the echo on a server with 200 tools.
    _call("cached", "cached tool", "cached", "cached", target=2.4),
    _call("awaiting", "tool that awaits", "awaiting", "awaiting", target=1.5),
    _call("threaded", "tool in a thread (def)", "threaded", "threaded", target=2.5),
    _call("model", "tool that returns a model", "model", "model", text=_MODEL_TEXT, structured=_MODEL),
    _call("context", "tool with a Context", "context", "with_context", text="hello 1", target=2.5),
    _call("depends", "tool with Depends", "depends", "with_depends", text="injected hello", target=2.5),
    _call("middleware", "one FastMCP middleware", "middleware", "behind", text="middleware hello", target=1.8),
    _list("list", "tools/list of 20, handshake protocol", Family.HANDSHAKE),
    _list("list-2026", "tools/list of 20, 2026-07-28", Family.STATELESS),
    _discover(),
    # FastMCP's client sends a progress token with each call.
    _call("progress", "echo with a progress token", "echo", "echo", meta={"progressToken": 1}),
    # Consecutive request heads differ, as with a trace id in a header.
    replace(_HEADS, other=_HEADS.request.replace(b"User-Agent: benchmark", b"User-Agent: another")),
    _call("fastmcp-path", "FastMCP path", "echo", "echo", meta={"fastmcp": {}}, target=7.0),
)

PAGES = (
    Scenario("page", "GET / (the console)", "echo", _get("/"), {}, end=b"</html>"),
    Scenario("replicas", "GET /replicas, which an open console asks every second", "echo", _get("/replicas"), {}),
)
"""Requests of a browser. Their instructions are counted; the exchange study needs the access log, which lacks them."""

WHOLE = ("start-up", "memory")
"""Further names for `--only`: measurements of the process as a whole."""


def choose(text: str, scenarios: Sequence[Scenario] = SCENARIOS) -> tuple[list[Scenario], set[str]]:
    """Return the scenarios and the names of `WHOLE` that match comma-separated patterns like `echo*`.

    Raises:
        argparse.ArgumentTypeError: A pattern matches nothing.
    """
    names = [*(scenario.name for scenario in scenarios), *WHOLE]
    patterns = [pattern.strip() for pattern in text.split(",")]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise argparse.ArgumentTypeError(f"{pattern!r} is none of {', '.join(names)}")
    chosen = {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}
    return [scenario for scenario in scenarios if scenario.name in chosen], chosen & set(WHOLE)

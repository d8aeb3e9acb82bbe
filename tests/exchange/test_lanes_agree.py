"""Both lanes say the same: whatever is asked, the fast lane's answer is the one that the full lane would give.

Two servers of the same components stand side by side in this process. One works as it does in production; of the other
all plans and memories are taken away, so that FastMCP and the SDK answer every request. Each request goes to both.
"""

import asyncio
import contextvars
import functools
import json
import logging
import os
import re
import traceback
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, get_args

import pytest
from fastmcp.decorators import get_fastmcp_meta
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools import ToolResult
from hypothesis import given, note, settings
from hypothesis import strategies as st
from mcp.shared.inbound import encode_header_value
from mcp_types import CallToolRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message, Scope

from server import containment, discovery, task_exits
from server.config import Settings
from server.exchange import eras, sdk
from server.exchange.endpoint import Exchange
from server.exchange.in_flight import InFlight
from server.exchange.lanes import Lanes
from server.http1.whole import WHOLE
from server.logs import _CHATTY
from server.mcp_app import build
from server.middleware.access_lines import FAILED
from server.server import _exchange
from tests.mcp import ENVELOPE, VERSION, request
from tests.packs.results import arguments, contexts, failing, plain, unusual

EXAMPLES = int(os.environ.get("LANES_EXAMPLES", "500"))
"""Requests that each of the generating tests makes."""

pytestmark = [
    # A value of another type than a tool declares is written all the same; pydantic says so once a process.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore:.*SEP-2577"),  # log messages go out of fashion, and still work
]

HANDSHAKE = HANDSHAKE_PROTOCOL_VERSIONS[-1]
VERSIONS = (None, *HANDSHAKE_PROTOCOL_VERSIONS, VERSION)
"""What `MCP-Protocol-Version` may say."""


# Two servers


@dataclass(frozen=True)
class Sent:
    """A request as it comes from the wire."""

    body: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    method: str = "POST"


@dataclass(frozen=True)
class Answer:
    """All of a reply that a caller can tell, and what it took."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    messages: tuple[str, ...]
    """One JSON document, or the events of a stream, each with its keys in order and its numbers exact."""
    failed: bool
    """Whether the access log marks it."""
    runs: Mapping[str, int]
    """How often the body of each component ran, and each middleware."""

    @property
    def message(self) -> dict[str, Any]:
        """The last message: the JSON-RPC response."""
        found: dict[str, Any] = json.loads(self.messages[-1])
        return found


WISHES = ["own answer", "another tool", "another name", "more", "again", "instead"]


class Looks(Middleware):
    """Middleware that takes part in calls, and changes those that have an argument which says so."""

    def __init__(self) -> None:
        self.runs = 0

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[CallToolRequestParams, ToolResult]
    ) -> ToolResult:
        """Do what `wish` says."""
        self.runs += 1
        given = dict(context.message.arguments or {})
        wish = given.pop("wish", None)
        if wish not in WISHES:
            return await call_next(context)
        name = "number_huge" if wish == "another name" else context.message.name
        context = context.copy(message=CallToolRequestParams(name=name, arguments=given))
        assert context.fastmcp_context is not None
        server = context.fastmcp_context.fastmcp
        if wish == "own answer":
            return ToolResult(content="own answer")
        if wish == "another tool":
            await server.call_tool("text", {})
        try:
            result = await call_next(context)
        except ToolError:
            if wish == "again":
                return await call_next(context)
            if wish == "instead":
                return await server.call_tool("text_unicode", {})
            raise
        if wish == "more":
            result.meta = {**(result.meta or {}), "more": 10**30}
        return await call_next(context) if wish == "again" else result


class Side:
    """One of the two servers."""

    def __init__(self, *middleware: Looks, full: bool) -> None:
        self.full = full
        self.middleware = middleware
        self.runs: Counter[str] = Counter()
        self.full_answers = 0
        given = Settings(mcp_components=("server", "tests.packs.results"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(discovery, "contain", self._contain_counting)
            app = build(given)
        for each in middleware:
            app.mcp.add_middleware(each)
        self.context = contextvars.copy_context()
        self.context.run(sdk.serve_over_http, app.mcp)
        exchange, self._opened, _ = _exchange(given, app, [], None, InFlight(100))
        assert isinstance(exchange, Exchange)
        self.exchange = exchange
        self._closing = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    def _contain_counting(self, fn: Callable[..., Any], *, what: str, **options: Any) -> Callable[..., Awaitable[Any]]:
        contained = containment.contain(fn, what=what, **options)

        @functools.wraps(contained)
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.runs[what] += 1
            return await contained(*args, **kwargs)

        return counted

    @property
    def lanes(self) -> Lanes:
        """What answers."""
        return self.exchange.lanes

    async def open(self) -> None:
        """Get ready to answer; the server's lifespan begins and ends in one task."""
        opened = asyncio.Event()

        async def serve() -> None:
            async with self._opened():
                opened.set()
                await self._closing.wait()

        self._serving = asyncio.get_running_loop().create_task(serve(), context=self.context)
        await opened.wait()
        lanes, answer = self.lanes, self.lanes.full.answer

        def answer_counting(*args: Any) -> Awaitable[None]:
            self.full_answers += 1
            return answer(*args)

        vars(lanes.full)["answer"] = answer_counting
        if self.full:
            lanes.plans.full |= lanes.plans.lanes
            lanes.plans.tools.clear()
            lanes.plans.cacheable = False

    async def close(self) -> None:
        """End the lifespan."""
        self._closing.set()
        if self._serving is not None:
            await self._serving

    def forget(self) -> None:
        """Forget all requests so far."""
        for holder in self._holders:
            holder._known = {}

    @contextmanager
    def forgetful(self) -> Iterator[None]:
        """Know of no request, for a while."""
        known = [holder._known for holder in self._holders]
        self.forget()
        yield
        for holder, then in zip(self._holders, known, strict=True):
            holder._known = then

    @property
    def _holders(self) -> list[Any]:
        return [self.lanes.catalogue, self.lanes.fast.envelopes, self.exchange.admission]

    async def answer(self, sent: Sent) -> Answer:
        """Answer one request, in a context as a connection of uvicorn's would give it."""
        self.runs.clear()
        for each in self.middleware:
            each.runs = 0
        drive = _drive(self.exchange, sent)
        with pytest.MonkeyPatch.context() as patch:
            if self.full:  # no short ways
                self.forget()
                patch.setattr(eras, "_agrees", lambda *_: False)
            answering = asyncio.get_running_loop().create_task(drive, context=self.context.copy())
            messages, failed = await answering
        start, *parts = messages
        if start["type"] == WHOLE:
            parts = [start]
        headers = dict(start["headers"])
        body = b"".join(part["body"] for part in parts)
        length = headers.pop(b"content-length", None)
        assert length is None or int(length) == len(body)
        assert not parts[-1].get("more_body", False)
        streamed = headers.get(b"content-type") == b"text/event-stream"
        documents = _events(body) if streamed else [body] if body else []
        return Answer(
            start["status"],
            tuple(sorted(headers.items())),
            tuple(_canonical(document) for document in documents),
            failed,
            {**self.runs, **{f"middleware {type(each).__name__}": each.runs for each in self.middleware}},
        )


async def _drive(exchange: Exchange, sent: Sent) -> tuple[list[Message], bool]:
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": sent.method,
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": list(sent.headers),
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }
    pending: list[Message] = [{"type": "http.request", "body": sent.body, "more_body": False}]
    messages: list[Message] = []

    async def receive() -> Message:
        if pending:
            return pending.pop()
        await asyncio.Event().wait()
        raise AssertionError("nobody goes away")

    async def send(message: Message) -> None:
        messages.append(message)

    await exchange(scope, receive, send)
    return messages, FAILED in scope


def _events(body: bytes) -> list[bytes]:
    """The data of an event stream's messages; comments, which keep it alive, come when they come."""
    events = [event for event in body.split(b"\r\n\r\n") if event and not event.startswith(b":")]
    head = b"event: message\r\ndata: "
    assert all(event.startswith(head) and event.count(b"\n") == 1 for event in events)
    return [event.removeprefix(head) for event in events]


# How long a server is up, and what is sealed with a nonce, differ by nature.
_UPTIME = re.compile(rb'(uptime_seconds\\?":)[\d.]+')
_SEALED = re.compile(rb'("requestState":)"[^"]{20,}"')


def _canonical(document: bytes) -> str:
    """JSON with its keys in order; integers stay exact, and 1 differs from 1.0, true and "1", 0.0 from -0.0."""
    document = _SEALED.sub(rb'\1"sealed"', _UPTIME.sub(rb"\g<1>0", document))
    return json.dumps(json.loads(document, parse_constant=_refuse, object_pairs_hook=_once), sort_keys=True)


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are each there once; others keep their order."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else {"keys that come twice": [list(pair) for pair in pairs]}


class Pair:
    """Both servers, on one event loop."""

    def __init__(self, *middleware: type[Looks]) -> None:
        self.fast, self.full = (Side(*(each() for each in middleware), full=full) for full in (False, True))
        self.runner = asyncio.Runner()
        self.runner.run(self._open())

    async def _open(self) -> None:
        task_exits.install(asyncio.get_running_loop())
        await self.fast.open()
        await self.full.open()

    async def _close(self) -> None:
        await self.fast.close()
        await self.full.close()

    def close(self) -> None:
        """End both."""
        self.runner.run(self._close())
        self.runner.close()

    def fast_answer(self, sent: Sent) -> tuple[Answer, int]:
        """The answer of the server as it is, and how often the full lane took part."""
        before = self.fast.full_answers
        answer = self.runner.run(self.fast.answer(sent))
        return answer, self.fast.full_answers - before

    def full_answer(self, sent: Sent) -> Answer:
        """The answer of the server that knows no short ways."""
        return self.runner.run(self.full.answer(sent))

    def check(self, sent: Sent) -> Answer:
        """Demand one answer of both: from all that the fast lane remembers, from nothing, and from just this request.

        An example that fails by what came before it passes when hypothesis tries it again, which it calls flaky.
        """
        expected = self.full_answer(sent)
        late, _ = self.fast_answer(sent)
        with self.fast.forgetful():
            first, _ = self.fast_answer(sent)
            again, _ = self.fast_answer(sent)
        assert first == expected
        assert again == expected, "it differs when it is asked a second time"
        assert late == expected, "it differs by what was asked before"
        return expected


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Two servers without middleware of their own."""
    made = Pair()
    yield made
    made.close()


@pytest.fixture(scope="module")
def pair_within() -> Iterator[Pair]:
    """Two servers with registered middleware, which the fast lane runs, too."""
    made = Pair(Looks)
    yield made
    made.close()


# What is sent


def sent(
    message: Any,
    version: str | None = HANDSHAKE,
    *extra: tuple[str, str],
    accept: str | None = "application/json, text/event-stream",
) -> Sent:
    """A request as a client of that version sends it."""
    headers = [("host", "localhost"), ("content-type", "application/json"), *extra]
    if accept is not None:
        headers.append(("accept", accept))
    if version is not None:
        headers.append(("mcp-protocol-version", version))
    params = message.get("params") or {}
    if version == VERSION:
        headers.append(("mcp-method", message["method"]))
        if name := params.get("name") or params.get("uri"):
            headers.append(("mcp-name", encode_header_value(name)))
    body = json.dumps(message).encode()
    return Sent(body, tuple((name.encode(), value.encode()) for name, value in headers))


def called(name: str, given: Any = None, version: str | None = HANDSHAKE, **meta: Any) -> Sent:
    """A tool's call."""
    params: dict[str, Any] = {"name": name, "arguments": given or {}}
    if version == VERSION:
        params["_meta"] = {**ENVELOPE, **meta}
    elif meta:
        params["_meta"] = meta
    region = [("mcp-param-region", given["region"])] if name == "by_region" and given else []
    return sent(request("tools/call", params), version, *region)


def tools_of(module: ModuleType) -> list[str]:
    """The names of a module's tools."""
    public = ((name, get_fastmcp_meta(value)) for name, value in sorted(vars(module).items()) if name[0] != "_")
    return [getattr(meta, "name", None) or name for name, meta in public if meta is not None]


PLAIN, UNUSUAL, FAILING = tools_of(plain), tools_of(unusual), tools_of(failing)
ARGUMENTS, CONTEXTS = tools_of(arguments), tools_of(contexts)
WITHOUT_RESULT = {"asks", "asks_as_it_says", "result_of_error", "result_of_the_protocol_of_error"}
WITHOUT_RESULT |= {"declared_but_number", "declared_but_text", "raw_within", "undeclared_raw_within"}
"""Those that ask what only one era can be asked, tell of an error, or return what FastMCP doesn't convert."""
NEVER_BEGUN = {"depends_on_failure", "depends_on_failure_for_the_caller", "depends_on_failure_to_validate"}
"""Those whose dependency fails, so that their own body doesn't run."""
SHIPPED = ["add", "echo", "server_info"]
TOOLS = [*SHIPPED, *PLAIN, *UNUSUAL, *FAILING, *ARGUMENTS, *CONTEXTS]

VALID: dict[str, dict[str, Any]] = {
    "add": {"a": 1, "b": 2.5},
    "echo": {"message": "hello 👋", "repeat": 2},
    "gives_anything": {"value": {"a": [1, None, 1e22, 10**30, "ä"]}},
    "gives_undeclared": {"value": [1, {"b": None}]},
    "gives_mapping": {"value": {"a": {"b": 1.0}}},
    "gives_items": {"value": [1, "2", None]},
    "gives_text": {"value": "\x00 ä 👋 \u2028"},
    "gives_number": {"value": 10**40},
    "gives_fraction": {"value": -0.0},
    "gives_truth": {"value": True},
    "gives_either": {"value": [1, 2.5]},
    "gives_person": {"person": {"name": "Ä", "born": "2000-02-29", "addresses": [{"street": "s", "no": 1}]}},
    "gives_range": {"span": {"start": 1}},
    "strict": {"value": 3},
    "constrained": {"age": 150, "word": "xyz", "kind": "b"},
    "keyword_only": {"first": "one"},
    "converted": {
        "unit": "ft",
        "at": "2026-07-28T12:00:00Z",
        "wait": "PT3S",
        "price": "1.10",
        "key": "00000000-0000-0000-0000-000000000001",
        "raw": "raw",
        "group": [3, 1, 1],
    },
    "aliased": {"from": 3},
    "shadowing": {"arguments": 3, "name": "m", "self": 1, "cls": 2},
    "by_region": {"region": "north"},
    "calls_another": {"name": "gives_mapping", "arguments": {"value": {"a": 10**30}}},
    "counts": {"key": "k"},
    "counts_in_a_thread": {"key": "k"},
    "counts_against_its_schema": {"key": "k"},
}


# Each tool


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_gets_one_answer(pair: Pair, pair_within: Pair, tool: str, version: str) -> None:
    """With valid arguments, with and without middleware; nothing runs twice."""
    for servers in (pair, pair_within):
        answer = servers.check(called(tool, VALID.get(tool), version))
        calls_others = tool.startswith("calls") or tool in ("injected_from_another", "injected_around_another")
        assert all(times == 1 or calls_others for times in answer.runs.values())
        if tool not in (*FAILING, *WITHOUT_RESULT):
            assert not answer.message["result"].get("isError")


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", TOOLS)
def test_each_tool_gets_one_answer_through_another(pair: Pair, tool: str, version: str) -> None:
    """A tool that calls another one takes over its result or its failure."""
    answer = pair.check(called("calls_another", {"name": tool, "arguments": VALID.get(tool, {})}, version))
    assert answer.runs["tool 'calls_another'"] <= 2


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("tool", [*SHIPPED, "picture", "result", "asks", *FAILING, *CONTEXTS])
def test_each_wish_of_a_middleware_gets_one_answer(pair_within: Pair, tool: str, wish: str) -> None:
    """Middleware may answer by itself, call something else, try again, or do something instead."""
    answer = pair_within.check(called(tool, {**VALID.get(tool, {}), "wish": wish}))
    ran = answer.runs.get(f"tool '{tool}'", 0) > 0
    assert ran == (wish not in ("own answer", "another name") and tool not in NEVER_BEGUN)
    pair_within.check(called(tool, {"wish": wish, "unknown": 1}))


@pytest.mark.parametrize("depth", [2, 60, 120, 190, 197, 253, 254, 255, 300, 1000])
@pytest.mark.parametrize("tool", ["gives_anything", "gives_items", "gives_undeclared"])
def test_depth_gets_one_answer(pair: Pair, tool: str, depth: int) -> None:
    """Readers and writers of JSON each have a depth at which they give up."""
    usual = called(tool)
    for value in (b"[" * depth + b"]" * depth, b'[{"a":' * (depth // 2) + b"1" + b"}]" * (depth // 2)):
        deep = usual.body.replace(b'"arguments": {}', b'"arguments": {"value": ' + value + b"}")
        assert pair.check(Sent(deep, usual.headers)).status in (200, 400)


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
@pytest.mark.parametrize("version", [HANDSHAKE_PROTOCOL_VERSIONS[0], HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", ["reports", "reports_without_parameter", "reports_and_fails", "reports_injected"])
def test_reports_get_one_answer(pair: Pair, tool: str, version: str, accept: str) -> None:
    """What is said before the end, to those who take an event stream."""
    for token in (None, 0, "token"):
        for level in (None, "debug", "info", "warning", "error"):
            meta: dict[str, Any] = dict(ENVELOPE) if version == VERSION else {}
            if token is not None:
                meta["progressToken"] = token
            if level is not None:
                meta["io.modelcontextprotocol/logLevel"] = level
            answer = pair.check(sent(request("tools/call", {"name": tool, "_meta": meta}), version, accept=accept))
            if accept == "application/json":
                assert len(answer.messages) == 1


_PREFIX = "io.modelcontextprotocol/"
_SHAPES: list[Callable[[Any], dict[str, Any]]] = [
    lambda value: {f"{_PREFIX}clientCapabilities": {"roots": {"listChanged": value}}},
    lambda value: {f"{_PREFIX}clientCapabilities": {"experimental": {"a": {"b": value}}}},
    lambda value: {f"{_PREFIX}clientInfo": {"name": "n", "version": "1", "icons": value}},
    lambda value: {f"{_PREFIX}clientInfo": {"name": "n", "version": "1", "title": value}},
    lambda value: {"com.example/own": value},
]


@pytest.mark.parametrize("shape", _SHAPES)
def test_an_envelope_is_known_by_more_than_its_like(pair: Pair, shape: Callable[[Any], dict[str, Any]]) -> None:
    """Python takes 1 for True: what was found valid must not vouch for what isn't."""
    for first in (True, 1, 1.0):
        for then in (True, 1, 1.0, 0, False):
            pair.fast.forget()
            for value in (first, then):
                asked = called("context_at_large", None, VERSION, **shape(value))
                assert pair.fast_answer(asked)[0] == pair.full_answer(asked)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "tool", ["text_unicode", "number_huge", "mapping", "town", "nothing", "linked", "sound", "fails"]
)
def test_each_version_gets_one_answer(pair: Pair, tool: str, version: str | None) -> None:
    """Versions differ in what a result may hold."""
    pair.check(called(tool, None, version))


def test_the_pack_is_served_and_planned(pair: Pair, pair_within: Pair) -> None:
    """Every tool of it, in the lane that this test is about; else it would compare the full lane with itself."""
    fast = pair.fast.lanes.plans.lanes
    assert sorted(fast) == sorted(TOOLS)
    assert {fast[tool] for tool in [*SHIPPED, *PLAIN, *UNUSUAL, *ARGUMENTS]} == {"fast"}
    assert {fast[tool] for tool in CONTEXTS} == {"fast", "fast, with Context or dependencies"}
    assert set(pair_within.fast.lanes.plans.lanes.values()) == {"fast, within Looks"}
    assert pair.fast.lanes.plans.cacheable
    assert not pair.full.lanes.plans.tools
    assert not pair.full.lanes.plans.cacheable


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("tool", [*SHIPPED, *PLAIN, *ARGUMENTS, *sorted(set(CONTEXTS) - {"calls_another"})])
def test_a_usual_result_is_the_fast_lanes_alone(pair: Pair, tool: str, version: str) -> None:
    """The full lane has no part in it, and the other server's has it all."""
    _, took = pair.fast_answer(called(tool, VALID.get(tool), version))
    assert took == 0
    if tool not in VALID:
        for given in ({"arguments": None}, {}):
            meta = ENVELOPE if version == VERSION else {}
            assert (
                pair.fast_answer(sent(request("tools/call", {"name": tool, "_meta": meta, **given}), version))[1] == 0
            )
    before = pair.full.full_answers
    pair.full_answer(called(tool, VALID.get(tool), version))
    assert pair.full.full_answers == before + 1


@pytest.mark.parametrize("tool", [*UNUSUAL, *FAILING])
def test_an_unusual_end_is_handed_over_once(pair: Pair, tool: str) -> None:
    """A call that the fast lane began is answered by the full lane at most once."""
    _, took = pair.fast_answer(called(tool, VALID.get(tool)))
    assert took <= 1


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping"])
def test_a_list_is_made_once(pair: Pair, method: str) -> None:
    """The second caller gets what was remembered."""
    pair.fast.forget()
    asked = request(method, {"_meta": ENVELOPE})
    for version in (HANDSHAKE, VERSION) if method != "ping" else (HANDSHAKE,):
        pair.fast_answer(sent(asked, version))
        answer, took = pair.fast_answer(sent(asked, version))
        assert took == 0
        assert answer == pair.full_answer(sent(asked, version))


# What runs once


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("end", get_args(failing.End))
@pytest.mark.parametrize("tool", ["counts", "counts_in_a_thread"])
def test_a_body_runs_once_however_it_ends(pair: Pair, pair_within: Pair, tool: str, end: str, version: str) -> None:
    """Counted by the tool itself."""
    for servers in (pair, pair_within):
        failing.RUNS.clear()
        fast, _ = servers.fast_answer(called(tool, {"key": "fast", "end": end}, version))
        full = servers.full_answer(called(tool, {"key": "full", "end": end}, version))
        assert failing.RUNS == {"fast": 1, "full": 1}
        assert fast == full


def test_a_body_does_not_run_for_wrong_arguments(pair: Pair, pair_within: Pair) -> None:
    """Nor when both lanes look at them."""
    for servers in (pair, pair_within):
        failing.RUNS.clear()
        answer = servers.check(called("counts", {"key": "key", "end": "no such end"}))
        assert answer.message["result"]["isError"] is True
        assert not failing.RUNS


# What is logged


@dataclass(frozen=True)
class Logged:
    """A line of log, without its time."""

    logger: str
    level: str
    text: str
    raised: str
    """The exception whose traceback goes with it, and the line of code that it comes from."""


def logged(caplog: pytest.LogCaptureFixture) -> list[Logged]:
    """The lines since the last look, as `server.logs` lets them through."""
    records = [record for record in caplog.records if record.name not in _CHATTY or record.levelno >= logging.WARNING]
    caplog.clear()
    return [Logged(each.name, each.levelname, each.getMessage(), _raised(each)) for each in records]


def _raised(record: logging.LogRecord) -> str:
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ""
    root: BaseException = error
    while root.__cause__ is not None:
        root = root.__cause__
    where = traceback.extract_tb(root.__traceback__)[-1]
    return f"{type(error).__name__}: {error}, from {Path(where.filename).name}: {where.line}"


FAILURES = [
    *((tool, VALID.get(tool, {})) for tool in FAILING if not tool.startswith("counts")),
    ("counts_against_its_schema", {"key": "k"}),
    *(("counts", {"key": "k", "end": end}) for end in ("told", "masked", "exit", "cancelled", "invalid", "late")),
    ("gives_number", {"value": "no number"}),
    ("constrained", {}),
    ("no_such_tool", {}),
]


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize(("tool", "given"), FAILURES)
def test_the_log_tells_of_a_failure_once(
    pair: Pair, caplog: pytest.LogCaptureFixture, tool: str, given: dict[str, Any], version: str
) -> None:
    """In the same words, whichever lane it took."""
    caplog.set_level(logging.INFO)
    asked = called(tool, given, version)
    fast, _ = pair.fast_answer(asked)
    told = logged(caplog)
    full = pair.full_answer(asked)
    assert told == logged(caplog)
    assert fast.failed
    assert full.failed
    reply = _told(full.message)
    if reply == f"Error calling tool '{tool}'":
        assert [line for line in told if line.raised or line.text.startswith(f"{reply}: ")]
    elif "validation error" in reply:  # with the values that the caller gave, which the log does without
        assert [line for line in told if re.search(r" told its caller: \w+: \w+$", line.text)]
    else:
        assert [
            line for line in told if " ".join(reply.split())[:100].replace("?", "") in line.text.replace("\ud800", "")
        ]
    # FastMCP has a line of its own; of each kind there is one, for each tool that took part.
    kinds = Counter((line.logger, *re.findall(r"tool '(\w+)'", line.text)[:1]) for line in told)
    assert set(kinds.values()) == {1}
    assert len([line for line in told if line.raised]) <= 1


def _told(message: dict[str, Any]) -> str:
    """What a caller reads of a failure."""
    found: str = message["error"]["message"] if "error" in message else message["result"]["content"][0]["text"]
    return found


def test_a_success_is_not_logged(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """The access log has its line already."""
    caplog.set_level(logging.INFO)
    for tool in [*PLAIN, *UNUSUAL, *ARGUMENTS]:
        fast, _ = pair.fast_answer(called(tool, VALID.get(tool)))
        if not fast.failed:
            assert logged(caplog) == []
        caplog.clear()


_NAMES = [
    "text",
    "",
    " text",
    "text ",
    "TEXT",
    "ä",
    "text\x00",
    "=?base64?dGV4dA==?=",
    "=?base64?",
    "=?",
    "no such",
    "1",
]


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize("method", ["tools/call", "tools/list", "prompts/get", "no/such"])
def test_each_form_of_a_header_gets_one_answer(pair: Pair, method: str, version: str) -> None:
    """The short way through the headers must let nothing pass that the SDK refuses, nor refuse what it lets pass."""
    for name in _NAMES if method == "tools/call" else ["text"]:
        params = {"_meta": ENVELOPE, **({} if method == "tools/list" else {"name": name})}
        body = json.dumps(request(method, params)).encode()
        for odd in ("mcp-protocol-version", "mcp-method", "mcp-name"):
            for form in ["right", *_FORMS]:
                routing = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name}
                headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
                for key, value in routing.items():
                    headers += [(key.encode(), each) for each in _in_form(value, form if key == odd else "right")]
                pair.check(Sent(body, tuple(headers)))


_ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    1.5,
    -0.0,
    10**30,
    "",
    "x",
    "1.0",
    "2.0",
    [],
    ["a"],
    {},
    {"a": None},
    {"version": "1.0"},
]
_ODD += [
    {"version": "2.0"},
    {"version": 2},
    {"name": "n", "version": "1"},
    {"roots": {"listChanged": 1}},
    "debug",
    VERSION,
]


@pytest.mark.parametrize("version", [HANDSHAKE_PROTOCOL_VERSIONS[0], HANDSHAKE, VERSION])
@pytest.mark.parametrize("name", ["text", "versioned", "context_at_large", "reports"])
def test_each_oddity_of_a_call_gets_one_answer(pair: Pair, name: str, version: str) -> None:
    """Each part of `params` and of `_meta`, with each kind of value."""
    envelope = ENVELOPE if version == VERSION else {}
    for odd in _ODD:
        for key in _META:
            pair.check(sent(request("tools/call", {"name": name, "_meta": {**envelope, key: odd}}), version))
        for key in sorted({*_OTHER_PARAMS, "arguments", "_meta"} - {"name"}):
            pair.check(sent(request("tools/call", {"name": name, "_meta": envelope, key: odd}), version))


@pytest.mark.parametrize("version", [HANDSHAKE_PROTOCOL_VERSIONS[0], HANDSHAKE, VERSION])
@pytest.mark.parametrize("method", ["tools/list", "resources/templates/list", "server/discover", "ping"])
def test_each_oddity_of_a_list_gets_one_answer(pair: Pair, method: str, version: str) -> None:
    """A list is remembered for those who ask for all of it, rightly."""
    envelope = ENVELOPE if version == VERSION else {}
    pair.check(sent({"jsonrpc": "2.0", "id": 1, "method": method}, version))
    pair.check(sent({"jsonrpc": "2.0", "id": 1, "method": method, "params": None}, version))
    for odd in _ODD:
        for key in _META:
            pair.check(sent(request(method, {"_meta": {**envelope, key: odd}}), version))
        for key in ("cursor", "extra", "_meta"):
            pair.check(sent(request(method, {"_meta": envelope, key: odd}), version))


# Whatever may come

# Numbers in forms that Python doesn't write.
_TOKENS = ["1e400", "-1e400", "1.0", "-0", "-0.0", "1E+2", "1e22", "1e-400", "0.1000000000000000055511151231257827"]
_TOKENS += ["12345678901234567890123456789012345", "18446744073709551616", "-9223372036854775809", "NaN", "-Infinity"]


_MARK = "this goes onto the wire without its quotes: "


def _encode(message: Any, *, ascii_only: bool) -> bytes:
    """A body; lone surrogates are escaped or, in bytes that aren't UTF-8, as they are."""
    written = json.dumps(message, ensure_ascii=ascii_only)
    return re.sub(f'"{_MARK}([^"]*)"', r"\1", written).encode("utf-8", "surrogatepass")


_TEXT = st.text(max_size=12) | st.sampled_from(
    [
        "",
        "nobody",
        "crash",
        "leave",
        "null",
        "1",
        "1.5",
        "true",
        "ä👋",
        "\ud800",
        "a\ud83d",
        "\x00",
        "NaN",
        "the text goes here",
        "ft",
    ]
)
_SCALAR = (
    st.none()
    | st.booleans()
    | st.integers(-3, 160)
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(_TOKENS).map(_MARK.__add__)
    | _TEXT
)
_ANY = st.recursive(
    _SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=8,
)


def _mostly(usual: st.SearchStrategy[Any], otherwise: st.SearchStrategy[Any], parts: int = 6) -> st.SearchStrategy[Any]:
    """One thing in most cases, another in one of `parts`."""
    return st.integers(1, parts).flatmap(lambda number: otherwise if number == parts else usual)


@st.composite
def _arguments_for(draw: st.DrawFn, tool: str) -> Any:
    """Valid arguments of a tool, or almost, or anything."""
    given = dict(VALID.get(tool, {}))
    for name in list(given):
        form = draw(st.sampled_from(["valid", "valid", "any", "gone", "null"]))
        if form == "any":
            given[name] = draw(_ANY)
        elif form == "gone":
            del given[name]
        elif form == "null":
            given[name] = None
    if draw(_mostly(st.just(False), st.just(True))):
        given[draw(_TEXT | st.sampled_from(["ctx", "one", "value", "self", "end"]))] = draw(_ANY)
    if draw(_mostly(st.just(False), st.just(True))):
        given["wish"] = draw(st.sampled_from(WISHES))
    return draw(_mostly(st.just(given), st.none() | _ANY, 10))


_CAPABILITIES = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}}, "extensions": {"a/b": {}}}
_META: dict[str, st.SearchStrategy[Any]] = {
    "io.modelcontextprotocol/protocolVersion": st.sampled_from([*VERSIONS, "2099-01-01"]) | _ANY,
    "io.modelcontextprotocol/clientCapabilities": st.just(_CAPABILITIES) | _ANY,
    "io.modelcontextprotocol/clientInfo": st.just({"name": "n", "version": "1", "title": "T", "x": 1}) | _ANY,
    "io.modelcontextprotocol/logLevel": st.sampled_from(["debug", "info", "error", "loud"]) | _ANY,
    "io.modelcontextprotocol/related-task": st.just({"taskId": "t"}) | _ANY,
    "progressToken": st.sampled_from([0, 7, "token", "", 10**30]) | _ANY,
    "fastmcp": st.sampled_from([{}, {"version": "1.0"}, {"version": None}, {"version": 1}]) | _ANY,
    "_fastmcp": st.just({"version": "2.0"}) | _ANY,
    "traceparent": st.just("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") | _ANY,
    "tracestate": st.just("a=b") | _ANY,
    "com.example/own": _ANY,
}


@st.composite
def _metas(draw: st.DrawFn, version: str | None) -> Any:
    """`_meta` as it should be, or almost, or anything."""
    meta: dict[str, Any] = dict(ENVELOPE) if version == VERSION else {}
    for key in draw(st.lists(st.sampled_from(sorted(_META)), max_size=2)):
        meta[key] = draw(_META[key])
    if draw(_mostly(st.just(False), st.just(True), 12)):
        meta.pop(draw(st.sampled_from(sorted(ENVELOPE))), None)
    return draw(_mostly(st.just(meta), st.none() | _ANY, 15))


_OTHER_PARAMS: dict[str, st.SearchStrategy[Any]] = {
    "cursor": st.sampled_from(["", "1", "x"]) | _ANY,
    "inputResponses": st.just({"who": {"action": "accept", "content": {"name": "n"}}}) | _ANY,
    "requestState": st.just("made up") | _ANY,
    "task": st.just({"ttl": 1}) | _ANY,
    "uri": st.sampled_from(["template://about", "template://greeting/en/you", "no-such://uri"]) | _ANY,
    "name": st.sampled_from(["summarize", "text", "no such"]) | _ANY,
    "level": st.sampled_from(["debug", "loud"]) | _ANY,
    "extra": _ANY,
    "protocolVersion": st.sampled_from(VERSIONS) | _ANY,
    "capabilities": st.just({}) | _ANY,
    "clientInfo": st.just({"name": "n", "version": "1"}) | _ANY,
}
_USUAL_PARAMS: dict[str, tuple[str, ...]] = {
    "resources/read": ("uri",),
    "prompts/get": ("name",),
    "initialize": ("protocolVersion", "capabilities", "clientInfo"),
    "logging/setLevel": ("level",),
}
_METHODS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list", "server/discover", "ping"]
_METHODS += [*_USUAL_PARAMS, "completion/complete", "tasks/get", "no/such", "", "notifications/initialized"]
_METHODS += ["notifications/cancelled", "notifications/progress", "tools/call/", "subscriptions/list"]

_WEIGHED = [*TOOLS, *SHIPPED * 5, *ARGUMENTS * 4, *CONTEXTS * 2, "no_such", "ä", "", "=?base64?dGV4dA==?=", " text"]
"""Tools to call, more often those that take arguments."""


@st.composite
def _messages(draw: st.DrawFn, version: str | None) -> dict[str, Any]:
    """A JSON-RPC request as it should be, or almost."""
    params: dict[str, Any] = {}
    if draw(_mostly(st.just(True), st.just(False), 4)):
        method = "tools/call"
        tool = draw(st.sampled_from(_WEIGHED))
        params["name"] = draw(_mostly(st.just(tool), _ANY, 20))
        params["arguments"] = draw(_arguments_for(tool))
        if params["arguments"] is None and draw(st.booleans()):
            del params["arguments"]
    else:
        method = draw(st.sampled_from(_METHODS))
        for key in _USUAL_PARAMS.get(method, ()):
            params[key] = draw(_OTHER_PARAMS[key])
    if version == VERSION or draw(st.booleans()):
        params["_meta"] = draw(_metas(version))
    if draw(_mostly(st.just(False), st.just(True), 10)):
        key = draw(st.sampled_from(sorted(_OTHER_PARAMS)))
        params[key] = draw(_OTHER_PARAMS[key])
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": draw(_IDS), "method": method, "params": params}
    if draw(_mostly(st.just(False), st.just(True), 15)):
        key = draw(st.sampled_from(sorted(message)))
        message[key] = draw(_ANY)
        if draw(st.booleans()):
            del message[key]
    return message


_IDS = (
    st.sampled_from([1, 0, -1, 2**63, 10**40, "", "id", "ä👋\u2028", '"', "\x00", "the text goes here"]) | st.integers()
)

_FORMS = ["absent", "other", "twice", "twice otherwise", "padded", "encoded", "upper", "empty", "latin"]


def _in_form(value: str, form: str) -> list[bytes]:
    """A header's values: as it should be, or in some other form."""
    right = encode_header_value(value).encode()
    forms = {
        "absent": [],
        "other": [b"other"],
        "twice": [right, right],
        "twice otherwise": [right, b"other"],
        "padded": [b" \t" + right + b"\t "],
        "encoded": [b"=?base64?" + b64encode(value.encode("utf-8", "replace")) + b"?="],
        "upper": [right.upper()],
        "empty": [b""],
        "latin": [value.encode("utf-8", "replace")],
    }
    return forms.get(form, [right])


_ACCEPTS = [None, "application/json", "text/event-stream", "application/json, text/event-stream", "*/*", "text/html"]
_ACCEPTS += ["application/*;q=0.1, text/*", "APPLICATION/JSON", "", "application/json;q=0, text/event-stream"]
_TYPES = ["application/json; charset=utf-8", "text/plain", "APPLICATION/JSON", ""]
_EXTRA = [
    (b"mcp-session-id", b"made-up"),
    (b"last-event-id", b"1"),
    (b"origin", b"http://localhost:8000"),
    (b"origin", b"https://evil.example"),
    (b"mcp-param-region", b"north"),
    (b"mcp-param-region", b"south"),
    (b"mcp-param-other", b"x"),
    (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    (b"authorization", b"Bearer secret"),
    (b"user-agent", b"caf\xe9"),
    (b"accept", b"text/html"),
]


@st.composite
def _heads(draw: st.DrawFn, message: Any, version: str | None) -> tuple[tuple[bytes, bytes], ...]:
    """A request's headers: what its body asks for, or almost."""
    message = message if isinstance(message, dict) else {}
    method, params = message.get("method"), message.get("params")
    params = params if isinstance(params, dict) else {}
    name = params.get("name") or params.get("uri")
    routing = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name}
    headers: list[tuple[bytes, bytes]] = [(b"host", b"localhost:8000")]
    headers += [(b"content-type", draw(_mostly(st.just("application/json"), st.sampled_from(_TYPES), 30)).encode())]
    accept = draw(_mostly(st.sampled_from(_ACCEPTS[:4]), st.sampled_from(_ACCEPTS), 4))
    if accept is not None:
        headers.append((b"accept", accept.encode()))
    for key, value in routing.items():
        if not isinstance(value, str) or (version != VERSION and key != "mcp-protocol-version"):
            continue
        form = draw(_mostly(st.just("right"), st.sampled_from(_FORMS), 15))
        try:
            headers += [(key.encode(), each) for each in _in_form(value, form)]
        except UnicodeEncodeError:
            headers.append((key.encode(), b"surrogate"))
    headers += draw(st.lists(st.sampled_from(_EXTRA), max_size=1))
    return tuple(headers)


@st.composite
def requests(draw: st.DrawFn) -> Sent:
    """Any request of either era."""
    version = draw(st.sampled_from(VERSIONS) | st.sampled_from([HANDSHAKE, VERSION, VERSION]))
    message: Any = draw(_messages(version))
    if draw(_mostly(st.just(False), st.just(True), 40)):
        message = draw(_ANY | st.lists(_messages(version), max_size=2))
    headers = draw(_heads(message, version))
    body = _encode(message, ascii_only=draw(st.booleans()))
    if draw(_mostly(st.just(False), st.just(True), 40)):
        body = body[: draw(st.integers(0, len(body)))] + draw(st.binary(max_size=3))
    method = draw(_mostly(st.just("POST"), st.sampled_from(["GET", "DELETE", "PUT"]), 50))
    return Sent(body, headers, method)


@st.composite
def calls(draw: st.DrawFn) -> Sent:
    """A proper call of a tool, with arguments of any kind."""
    version = draw(st.sampled_from([HANDSHAKE, VERSION]))
    tool = draw(
        st.sampled_from(
            [*ARGUMENTS, *SHIPPED, "injected", "injected_in_a_thread", "reports", "calls_itself", "calls_another"]
        )
    )
    params = {"name": tool, "arguments": draw(_arguments_for(tool))}
    if version == VERSION:
        params["_meta"] = ENVELOPE
    proper = sent(request("tools/call", {**params, "arguments": {}}, draw(_IDS)), version)
    return Sent(_encode(request("tools/call", params, draw(_IDS)), ascii_only=draw(st.booleans())), proper.headers)


@settings(max_examples=EXAMPLES, deadline=None)
@given(asked=requests())
def test_any_request_gets_one_answer(pair: Pair, asked: Sent) -> None:
    """Valid, invalid, odd."""
    note(f"{asked.method} {asked.headers} {asked.body!r}")
    assert pair.check(asked).status < 500


@settings(max_examples=EXAMPLES, deadline=None)
@given(asked=calls())
def test_any_arguments_get_one_answer(pair: Pair, asked: Sent) -> None:
    """What a tool is given, and gives back."""
    note(f"{asked.headers} {asked.body!r}")
    assert pair.check(asked).status in (200, 400)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(asked=calls())
def test_any_arguments_get_one_answer_within_middleware(pair_within: Pair, asked: Sent) -> None:
    """The same where the fast lane runs registered middleware."""
    note(f"{asked.headers} {asked.body!r}")
    assert pair_within.check(asked).status in (200, 400)

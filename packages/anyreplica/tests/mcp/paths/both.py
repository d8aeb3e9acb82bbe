"""The servers that receive each request: one for each path."""

import asyncio
import contextvars
import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from fastmcp import FastMCP
from fastmcp.tools import FunctionTool

from anyreplica import Settings
from anyreplica.components import containment, prepare
from anyreplica.components.containment import AsyncFunction
from anyreplica.features.cache.feature import ResultCache
from anyreplica.features.sessions.feature import ClientSessions
from anyreplica.http.request_limits import RequestLimits
from anyreplica.http.responses import WHOLE
from anyreplica.mcp import message
from anyreplica.mcp.compat import contexts, mounts, shared_dependencies
from anyreplica.mcp.components import serve_components
from anyreplica.mcp.endpoint import CallPaths
from anyreplica.mcp.lenient import endpoint_class
from anyreplica.process.event_loop import stop_exits
from tests.damage.wire import Request
from tests.mcp.paths.answers import Answer, canonical, drive, events
from tests.mcp.paths.looks import Counting, Looks


class Side:
    """One of the servers.

    Args:
        path: `fast`: it uses all paths. `direct`: no tool has a call plan. `full`: each request takes the FastMCP path.
        make: makes the FastMCP object. None: the server has the components of the packs.
        settings: settings other than the default.
    """

    def __init__(
        self,
        *middleware: Looks,
        path: Literal["fast", "direct", "full"],
        make: Callable[[], FastMCP] | None = None,
        **settings: Any,
    ) -> None:
        self.path = path
        self.full = path == "full"
        self.middleware: list[Counting] = list(middleware)
        self.runs: Counter[str] = Counter()
        self.full_answers = 0
        given = Settings(mcp_components=("server", "tests.packs.results") if make is None else (), **settings)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prepare, "contain", self._contain_counting)
            self._count_tools(patch)
            mcp = FastMCP(given.mcp_name) if make is None else make()
            _, setup = serve_components(
                mcp, given, [ResultCache(given).wrap_tool], ClientSessions(given).mcp_middleware()
            )
        for each in middleware:
            mcp.add_middleware(each)
        if make is not None:
            found = [each for server in mounts.servers_of(mcp) for each in server.middleware]
            self.middleware += [each for each in found if isinstance(each, Counting)]
        self.context = contextvars.copy_context()
        self.context.run(contexts.serve_over_http, mcp)
        self.context.run(shared_dependencies.set_scope)
        self.exchange = endpoint_class(given)(setup, given, RequestLimits(given))
        self._closing = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    def _contain_counting(self, fn: Callable[..., Any], *, what: str, **options: Any) -> AsyncFunction:
        return self._counting(containment.contain(fn, what=what, **options), what)

    def _counting(self, run: AsyncFunction, what: str) -> AsyncFunction:
        @functools.wraps(run)
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.runs[what] += 1
            return await run(*args, **kwargs)

        return counted

    def _count_tools(self, patch: pytest.MonkeyPatch) -> None:
        """Count the runs of each tool's function on all paths: the fast path calls it without its check."""
        prepare_tool = prepare.Preparation._tool
        tool_name = ""

        def prepared(preparation: prepare.Preparation, tool: FunctionTool) -> FunctionTool:
            nonlocal tool_name
            tool_name = tool.name
            return prepare_tool(preparation, tool)

        def as_async(fn: Callable[..., Any], threads: containment.ThreadRunner | None) -> AsyncFunction:
            return self._counting(containment.as_async(fn, threads), f"tool {tool_name!r}")

        patch.setattr(prepare.Preparation, "_tool", prepared)
        patch.setattr(prepare, "as_async", as_async)

    @property
    def paths(self) -> CallPaths:
        """The two call paths of this server."""
        return self.exchange.paths

    async def open(self) -> None:
        """Start the lifespan in a separate task. The same task also ends the lifespan."""
        opened = asyncio.Event()

        async def serve() -> None:
            async with self.exchange.opened():
                opened.set()
                await self._closing.wait()

        self._serving = asyncio.get_running_loop().create_task(serve(), context=self.context.copy())
        waiting = asyncio.ensure_future(opened.wait())
        await asyncio.wait((self._serving, waiting), return_when=asyncio.FIRST_COMPLETED)
        if self._serving.done():
            self._serving.result()  # it raises the error of the start
        paths, answer = self.paths, self.paths.fallback.answer

        def answer_counting(*args: Any) -> Awaitable[None]:
            self.full_answers += 1
            return answer(*args)

        vars(paths.fallback)["answer"] = answer_counting
        if self.path != "fast":
            self._forget_plans()
            plan = paths.plan

            async def plan_less() -> None:
                await plan()
                self._forget_plans()

            vars(paths)["plan"] = plan_less

    def _forget_plans(self) -> None:
        plans = self.paths.plans
        plans.fastmcp |= plans.paths
        plans.tools.clear()
        if self.full:
            plans.direct.clear()
            plans.cacheable = False

    async def close(self) -> None:
        """End the lifespan."""
        self._closing.set()
        if self._serving is not None:
            await self._serving

    def forget(self) -> None:
        """Clear the caches of all earlier requests."""
        for known in self._known:
            known.clear()

    @contextmanager
    def forgetful(self) -> Iterator[None]:
        """Clear the caches of earlier requests inside the block, and restore them afterwards."""
        before = [dict(known) for known in self._known]
        self.forget()
        yield
        for known, then in zip(self._known, before, strict=True):
            known.clear()
            known.update(then)

    @property
    def _known(self) -> list[MutableMapping[Any, Any]]:
        return [self.paths.lists._known, self.paths.fast.envelopes._known, self.exchange.limits.heads._accepted]

    async def answer(self, sent: Request) -> Answer:
        """Answer one request in a new context, as for a connection of uvicorn."""
        self.runs.clear()
        for each in self.middleware:
            each.runs = 0
        driven = drive(self.exchange, sent)
        with pytest.MonkeyPatch.context() as patch:
            if self.full:  # This server must not use caches or shortcuts.
                self.forget()
                patch.setattr(message, "_agrees", lambda *_: False)
            answering = asyncio.get_running_loop().create_task(driven, context=self.context.copy())
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
        documents = events(body) if streamed else [body] if body else []
        return Answer(
            start["status"],
            tuple(sorted(headers.items())),
            tuple(canonical(document) for document in documents),
            failed,
            {**self.runs, **{each.label: each.runs for each in self.middleware}},
        )


class Pair:
    """The fast and the full server on one event loop, with the direct server between them.

    Args:
        make: makes the FastMCP object of each server. None: the servers have the components of the packs.
        settings: settings other than the default.
    """

    def __init__(self, *middleware: type[Looks], make: Callable[[], FastMCP] | None = None, **settings: Any) -> None:
        self.fast, self.direct, self.full = (
            Side(*(each() for each in middleware), path=path, make=make, **settings)
            for path in ("fast", "direct", "full")
        )
        self.sides = self.fast, self.direct, self.full
        self.runner = asyncio.Runner()
        self.runner.run(self._open())

    async def _open(self) -> None:
        stop_exits(asyncio.get_running_loop())
        for each in self.sides:
            await each.open()

    async def _close(self) -> None:
        for each in self.sides:
            await each.close()

    def close(self) -> None:
        """Close all servers."""
        self.runner.run(self._close())
        self.runner.close()

    def fast_answer(self, sent: Request) -> tuple[Answer, int]:
        """Return the first server's answer and the number of times that its FastMCP path took part."""
        before = self.fast.full_answers
        answer = self.runner.run(self.fast.answer(sent))
        return answer, self.fast.full_answers - before

    def full_answer(self, sent: Request) -> Answer:
        """Return the answer of the server that uses only the FastMCP path."""
        return self.runner.run(self.full.answer(sent))

    def check(self, sent: Request) -> Answer:
        """Check that all servers give the same answer to a request.

        The first server answers with all caches, with empty caches, and with only this request cached. A request that
        fails only because of earlier requests passes when Hypothesis repeats it. Hypothesis then reports the test as
        flaky.
        """
        expected = self.full_answer(sent)
        late, _ = self.fast_answer(sent)
        with self.fast.forgetful():
            first, _ = self.fast_answer(sent)
            again, _ = self.fast_answer(sent)
        assert first == expected
        assert self.runner.run(self.direct.answer(sent)) == expected, "the direct answer differs"
        assert again == expected, "the second, cached answer differs"
        assert late == expected, "the answer depends on earlier requests"
        return expected

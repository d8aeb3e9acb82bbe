"""A process that generates load; it does nothing else, so that the terminal output does not slow it down."""

import asyncio
import signal
import threading
import traceback
from array import array
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe

import httpx2
import uvloop
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from anyreplica.load import plan
from anyreplica.load.client import REFUSED_PAUSE, LoadClient
from anyreplica.load.latency import Samples
from anyreplica.load.message import Family
from anyreplica.load.options import Options
from anyreplica.load.run import LoadRun, Working
from anyreplica.load.watch import Watch
from anyreplica.signing.httpx_auth import Signed

_NAME = "tools/call echo (SDK)"

_MODES = {Family.LEGACY: "legacy", Family.MODERN: Family.MODERN.value}

TICK = 0.25
"""Seconds between two ticks."""


class SdkClient:
    """A client that connects with the MCP SDK and calls echo repeatedly.

    Args:
        run: The run that this client belongs to.
        headers: Headers of each request, in addition to those of the SDK.
        auth: Signs each request; None: the requests are not signed.
    """

    connection = None
    """Always None: the SDK's client manages its connections."""

    def __init__(self, run: LoadRun, headers: Mapping[str, str], auth: Signed | None = None) -> None:
        self._run = run
        self._headers = dict(headers)
        self._auth = auth
        self._number = next(run.connection_numbers)
        self._family = run.load.families[self._number % len(run.load.families)]
        self._replica = ""

    async def work(self) -> None:
        """Send requests until the run is over.

        An error that breaks the SDK's client counts as a failure. Then this method makes a new SDK client.
        """
        run = self._run
        while not run.over:
            begun = run.now
            http = httpx2.AsyncClient(
                headers=self._headers,
                auth=self._auth,
                event_hooks={"response": [self._note]},
                timeout=run.load.patience,
            )
            try:
                async with http:
                    transport = streamable_http_client(run.load.target.url, http_client=http)
                    async with Client(transport, mode=_MODES[self._family], cache=None) as client:
                        run.connects.append(run.now - begun)
                        await self._calls(client)
            except Exception as error:  # noqa: BLE001  # The SDK's tasks raise groups of arbitrary exceptions.
                self._failed(begun, error)
                await asyncio.sleep(REFUSED_PAUSE)

    def close(self) -> None:
        """Do nothing: `work` closes its client itself."""

    async def _calls(self, client: Client) -> None:
        run = self._run
        async for number, due in run.turns():
            begun = run.now if due is None else due
            text = f"load {number}"
            try:
                async with asyncio.timeout(run.load.patience):
                    result = await client.call_tool("echo", {"message": text})
            except (MCPError, TimeoutError, httpx2.HTTPError) as error:
                self._failed(begun, error)
                continue
            block = result.content[0] if result.content else None
            right = isinstance(block, TextContent) and block.text == text and not result.is_error
            run.samples.add(begun, run.now, "" if right else "wrong text", self._replica, _NAME, self._number)

    async def _note(self, response: httpx2.Response) -> None:
        self._replica = response.headers.get("X-Served-By", "")

    def _failed(self, begun: float, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        kind = f"SDK: {type(error).__name__}"
        self._run.samples.examples.setdefault(kind, str(error))
        self._run.samples.add(begun, self._run.now, kind, "", _NAME, self._number)


@dataclass(frozen=True)
class LiveTick:
    """The results since the last tick."""

    at: float
    """Seconds since the start of the run."""
    seconds: "array[float]"
    """Durations of the successful requests, in seconds."""
    failed: int
    """Number of failed requests."""
    replicas: Counter[str]
    """Number of requests that each replica answered."""


@dataclass(frozen=True)
class Part:
    """The complete result of one process."""

    samples: Samples
    begun: int
    """How many times clients began the scenario."""
    elapsed: float
    """Duration of the run, in seconds."""
    connects: list[float]
    """Durations to make each connection, in seconds."""
    late: list[float]
    """How late free clients (without a request in flight) sent requests, in seconds."""
    watch: Watch


def work(pipe: Pipe, options: Options, addresses: list[str], part: int) -> None:
    """Run the process that generates load.

    The process sends "ready" and waits for a message. Then it generates load and sends a `LiveTick` every `TICK`
    seconds, and a `Part` at the end. If another message arrives during the run, the process stops the run. If an
    exception ends the process, it sends the traceback as text.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches this process, too. Only the parent process handles it.
    try:
        uvloop.run(_work(pipe, options, addresses, part))
    except Exception:  # noqa: BLE001  # The parent must receive every error.
        with suppress(OSError):  # The parent process has ended.
            pipe.send(traceback.format_exc())


async def _work(pipe: Pipe, options: Options, addresses: list[str], part: int) -> None:
    load = plan.load(options, addresses, part)
    pipe.send("ready")
    await asyncio.to_thread(pipe.recv)

    def client(run: LoadRun) -> Working:
        if options.what.get("sdk"):
            return SdkClient(run, options.headers, options.signer.auth() if options.signer else None)
        return LoadClient(run)

    if options.warm_up:
        await LoadRun(plan.warm_up(load, options.warm_up)).go(client)
    run = LoadRun(load, first=part + 1, step=options.processes)
    watch = Watch()
    loop = asyncio.get_running_loop()
    # A thread waits for the message: an event loop would make the pipe non-blocking, and large results would be cut.
    threading.Thread(target=_stop_on_message, args=(pipe, loop, run), daemon=True).start()
    helpers = [asyncio.create_task(_report(pipe, run)), asyncio.create_task(watch.run())]
    try:
        await run.go(client)
    finally:
        for task in helpers:
            task.cancel()
        await asyncio.gather(*helpers, return_exceptions=True)
    pipe.send(Part(run.samples, run.taken, run.elapsed, run.connects, run.late, watch))


def _stop_on_message(pipe: Pipe, loop: asyncio.AbstractEventLoop, run: LoadRun) -> None:
    with suppress(EOFError, OSError):  # The parent process has ended: stop too, or the load would go on without it.
        pipe.recv()
    with suppress(RuntimeError):  # The loop has ended.
        loop.call_soon_threadsafe(run.stop)


async def _report(pipe: Pipe, run: LoadRun) -> None:
    reported = 0
    while True:
        await asyncio.sleep(TICK)
        samples = run.samples
        until = len(samples)
        new = range(reported, until)
        names = samples.replicas.words
        pipe.send(
            LiveTick(
                at=run.now,
                seconds=array("d", [samples.ended[n] - samples.begun[n] for n in new if not samples.kind[n]]),
                failed=sum(1 for n in new if samples.kind[n]),
                replicas=Counter(names[samples.replica[n]] for n in new if samples.replica[n]),
            )
        )
        reported = until

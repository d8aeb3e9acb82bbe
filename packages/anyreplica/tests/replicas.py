"""Replicas behind a round-robin proxy, and the Redis that the replicas share."""

import asyncio
import contextlib
import itertools
import json
import signal
import subprocess
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import httpx
import pytest

from conftest import Server, free_port, until
from tests.calls import ENVELOPE, HEADERS, VERSION, request

KEYS = "the-key-that-all-of-these-replicas-share"
COMPONENTS = "server,tests.conformance.pack"
PACKS = f"{COMPONENTS},tests.packs.state,tests.packs.waiting"
BOTH = "application/json, text/event-stream"
"""The Accept header of a client that accepts event streams."""

Family = Literal["handshake", "stateless"]


class Proxy:
    """A proxy on an event loop in a thread of its own. A subclass sets its attributes before it calls `__init__`."""

    def __init__(self) -> None:
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        assert self._started.wait(10)

    def close(self) -> None:
        """Stop the proxy and close all its connections."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for transport in self._transports:  # A transport with unsent data would stay open if the peer does not read.
            transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)

    def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._transports.add(to_client.transport)
        task = self._loop.create_task(self._pass(client, to_client))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _pass(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        raise NotImplementedError


class RoundRobin(Proxy):
    """An HTTP proxy that sends each request to the next of its backends, on a new connection.

    The proxy passes bodies and responses on as they arrive. When one side closes its connection, the proxy closes the
    connection to the other side. A test may change `ports`, the ports of the backends, while the proxy runs.
    """

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.unanswered = 0
        """Number of requests that were passed on and have no response yet."""
        self._turns = itertools.count()
        self._passes = asyncio.Event()
        self._passes.set()
        super().__init__()

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        """Pass on no new requests inside the `with` block. They wait."""
        self._loop.call_soon_threadsafe(self._passes.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._passes.set)

    def cut(self) -> None:
        """Reset all connections. Later ones are not affected."""
        for transport in list(self._transports):
            self._loop.call_soon_threadsafe(transport.abort)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.unanswered += 1
        ports = self.ports
        try:
            return await asyncio.open_connection("127.0.0.1", ports[next(self._turns) % len(ports)])
        except OSError:
            self.unanswered -= 1
            raise

    async def _respond(self, backend: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Pass on a response."""
        part = b""
        with contextlib.suppress(OSError):
            part = await backend.read(65536)
            to_client.write(part)
        self.unanswered -= 1
        if part:
            await _pump(backend, to_client)

    async def _pass(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Pass on one request and its response. The client sends its second request on a new connection."""
        writers = [to_client]
        try:
            head = await client.readuntil(b"\r\n\r\n")
            await self._passes.wait()
            backend, to_backend = await self._connect()
            writers.append(to_backend)
            self._transports.add(to_backend.transport)
            to_backend.write(_closing(head))
            passes = (_pump(client, to_backend), self._respond(backend, to_client))
            pumps = {asyncio.ensure_future(each) for each in passes}
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The backend does not listen, or one side has closed its connection.
        finally:
            for writer in writers:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()


def _closing(head: bytes) -> bytes:
    """Return a request's head with `Connection: close`."""
    lines = [line for line in head.split(b"\r\n") if line and not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await source.read(65536):
            sink.write(part)
            await sink.drain()


_ENTRIES = """
local found = {}
for _, key in ipairs(redis.call("keys", ARGV[1])) do
  found[key] = {redis.call("get", key), redis.call("ttl", key)}
end
return cjson.encode(found)
"""


class RedisServer:
    """A `redis-server` process within a `with` block. A restart keeps the port, and the data only after `keep`."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None
        self._kept = "no"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def keep(self) -> None:
        """Write the present data and all later data to disk."""
        self._kept = "yes"
        for name, value in (("appendonly", "yes"), ("appendfsync", "always")):
            assert self.ask("config", "set", name, value) == "OK"

    def start(self) -> None:
        """Start Redis and wait until it answers."""
        command = ["redis-server", "--port", str(self.port), "--save", "", "--appendonly", self._kept]
        command += ["--bind", "127.0.0.1", "--dir", str(self.log.parent)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            until(lambda: self.ask("ping") == "PONG", lambda: f"Redis answers; it printed:\n{self.log.read_text()}")
        except BaseException:
            self.kill()
            raise

    def ask(self, *command: str) -> str:
        """Return the answer to a command, or an empty string if Redis does not answer."""
        client = ["redis-cli", "-p", str(self.port), *command]
        return subprocess.run(client, capture_output=True, text=True, check=False, timeout=60).stdout.strip()

    def entries(self, pattern: str) -> dict[str, tuple[str, int]]:
        """Return the values and expiries (-1: none) of all matching texts. One script reads them, however many."""
        found: dict[str, tuple[str, int]] = json.loads(self.ask("eval", _ENTRIES, "0", pattern))
        return found

    def hang(self) -> None:
        """Stop Redis, so that it keeps its connections and answers nothing."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a `hang`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill Redis, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Fleet:
    """Replicas behind a round-robin proxy."""

    replicas: list[Server]
    proxy: RoundRobin

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return self.proxy.url

    @property
    def urls(self) -> list[str]:
        """The URL of each replica, without the proxy."""
        return [replica.url for replica in self.replicas]

    def named(self, served_by: str) -> Server:
        """Return the replica that the header X-Served-By of a reply names."""
        return self.replicas[int(served_by.rpartition("-")[2]) - 1]


@contextlib.contextmanager
def running(folder: Path, count: int = 3, *, command: Sequence[str] = (), **settings: str) -> Iterator[Fleet]:
    """Run replicas behind a round-robin proxy: of the sample and the conformance pack, or of Python's `command`."""
    common = {"MCP_REPLICAS": str(count), "REQUEST_STATE_KEYS": KEYS, "MCP_COMPONENTS": COMPONENTS, **settings}
    replicas: list[Server] = []
    try:
        for number in range(1, count + 1):
            named = {"REPLICA_NAME": f"replica-{number}", **common}
            replicas.append(Server(folder / f"replica-{number}.log", command=command, **named))
        for replica in replicas:
            replica.wait_ready()
        with contextlib.closing(RoundRobin([replica.port for replica in replicas])) as proxy:
            yield Fleet(replicas, proxy)
    finally:
        for replica in replicas:
            replica.stop()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis for one test. The test may kill and restart it."""
    with RedisServer(tmp_path / "redis.log") as server:
        yield server


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas without Redis, for tests that do not change the replicas' state."""
    with running(tmp_path_factory.mktemp("fleet"), MCP_COMPONENTS=PACKS) as found:
        yield found


@pytest.fixture(scope="session")
def fleet_with_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas that share a Redis, for tests that do not change the replicas' state."""
    folder = tmp_path_factory.mktemp("fleet-with-redis")
    with (
        RedisServer(folder / "redis.log") as redis,
        running(folder, REDIS_URL=redis.url, MCP_COMPONENTS=PACKS) as found,
    ):
        yield found


def asking(family: Family, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """Return a request, with `meta` as members of its `_meta`, as keyword arguments for httpx."""
    params = dict(params or {})
    headers = dict(HEADERS)
    if family == "stateless":
        params["_meta"] = {**ENVELOPE, **meta}
        headers |= {"MCP-Protocol-Version": VERSION, "Mcp-Method": method}
        if name := params.get("name") or params.get("uri"):
            headers["Mcp-Name"] = name
    elif meta:
        params["_meta"] = meta
    return {"json": request(method, params), "headers": headers}


@contextlib.contextmanager
def streaming(url: str, asked: dict[str, Any]) -> Iterator[tuple[httpx.Response, Iterator[dict[str, Any]]]]:
    """Send a request that accepts event streams. Yield the response and an iterator over its messages."""
    asked = {**asked, "headers": {**asked["headers"], "Accept": BOTH}}
    with httpx.Client(verify=False, timeout=60) as client, client.stream("POST", f"{url}/mcp", **asked) as reply:
        yield reply, messages(reply)


def messages(reply: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield the JSON-RPC messages of an event stream as they arrive. Events without data are left out."""
    for line in reply.iter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))

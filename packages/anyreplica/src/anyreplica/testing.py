"""Helpers for tests of your server: a replica in the process of the test, or real replicas in their own processes.

from anyreplica.testing import replica
from server.server import create_app

def test_add() -> None:
    with replica(create_app) as client:
        assert client.call("add", a=1, b=2) == 3
"""

import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx2
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from anyreplica.app import App
from anyreplica.mcp.compat.masking import note_choices
from anyreplica.process.lifecycle import Lifecycle
from anyreplica.process.temporary_server import listening

__all__ = ["CallFailed", "Client", "Served", "fleet", "replica", "serve"]

_HEADERS = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}
_SECONDS = 60.0
"""Time limit for the start of replicas, and for their stop, in seconds."""


class CallFailed(Exception):
    """A call that got an error. `str()` returns the text of the error.

    Attributes:
        code: The JSON-RPC error code. None if the tool failed.
        status: The HTTP status.

    Example:

        import pytest

        from anyreplica.testing import CallFailed, Client

        def test_wrong_argument(client: Client) -> None:
            with pytest.raises(CallFailed, match="Input should be a valid number"):
                client.call("add", a="one", b=2)
    """

    def __init__(self, text: str, status: int, code: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class Client:
    """A client that calls a server over HTTP.

    Attributes:
        http: An HTTP client for requests to other routes, such as `client.http.get("/readyz")`.

    Example:

        from anyreplica.testing import Client

        def test_greeting(client: Client) -> None:
            assert client.read("template://greeting/de/Ada") == "Hallo, Ada!"
    """

    def __init__(self, http: httpx2.Client, token: str = "", path: str = "/mcp") -> None:
        self.http = http
        self._path = path
        self._headers = {**_HEADERS, **({"Authorization": f"Bearer {token}"} if token else {})}

    def with_token(self, token: str) -> "Client":
        """Return a client of the same server that sends this key or token with each call."""
        return Client(self.http, token, self._path)

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool. Return its structured result, or its text if it has no structured result.

        Raises:
            CallFailed: The tool failed, or the server refused the call.
        """
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        texts = [block["text"] for block in result["content"] if block["type"] == "text"]
        if result.get("isError"):
            raise CallFailed("\n".join(texts), 200)
        content = result.get("structuredContent")
        if content is None:
            return "\n".join(texts)
        return content["result"] if (result.get("_meta") or {}).get("fastmcp", {}).get("wrap_result") else content

    def tools(self) -> list[str]:
        """Return the names of the tools that this caller may use."""
        return [tool["name"] for tool in self.request("tools/list", {})["tools"]]

    def read(self, uri: str) -> str:
        """Read a resource and return its text.

        Raises:
            CallFailed: The resource does not exist, or reading it failed.
        """
        return "".join(part["text"] for part in self.request("resources/read", {"uri": uri})["contents"])

    def prompt(self, name: str, /, **arguments: str) -> str:
        """Render a prompt and return the text of its messages.

        Raises:
            CallFailed: The prompt does not exist, or its arguments are invalid.
        """
        messages = self.request("prompts/get", {"name": name, "arguments": arguments})["messages"]
        return "\n".join(message["content"]["text"] for message in messages)

    def job(self, name: str, /, *, within: float = 30, **params: Any) -> Any:
        """Submit a job, wait for its end and return its result.

        Args:
            name: The name of the job.
            within: Time limit, in seconds.
            params: The parameters of the job.

        Raises:
            CallFailed: The server refused the job, the job failed, or it did not finish within the time limit.
        """
        submitted = self.http.post("/jobs", json={"job": name, "params": params}, headers=self._headers)
        if submitted.status_code != 202:
            raise CallFailed(submitted.json()["message"], submitted.status_code)
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            reply = self.http.get(f"/jobs/{submitted.json()['id']}/result", headers=self._headers)
            if reply.status_code == 200:
                return reply.json()["result"]
            if reply.status_code != 202:
                raise CallFailed(reply.json().get("error") or reply.text, reply.status_code)
            time.sleep(0.05)
        raise CallFailed(f"Job {name!r} did not finish within {within:g} s.", 202)

    def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a JSON-RPC request and return its result.

        Raises:
            CallFailed: The server returned an error.
        """
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
        reply = self.http.post(self._path, json=message, headers=self._headers)
        answer = reply.json()
        if "error" in answer:
            error = answer["error"]
            if isinstance(error, dict):
                raise CallFailed(error["message"], reply.status_code, error["code"])
            raise CallFailed(answer["message"], reply.status_code)
        result: dict[str, Any] = answer["result"]
        return result


@contextmanager
def replica(create_app: Callable[[], ASGIApp], /, **settings: str) -> Iterator[Client]:
    """Serve an app in the process of the test, without a port.

    Args:
        create_app: Your app factory.
        settings: Environment variables for this replica, such as `CALL_TIMEOUT_SECONDS="1"`.

    Raises:
        StartupError: The app cannot start.
        TypeError: The factory returns something that `anyreplica.create_app` did not create.

    Example:

        from anyreplica.testing import replica
        from server.server import create_app

        def test_add() -> None:
            with replica(create_app, CALL_TIMEOUT_SECONDS="1") as client:
                assert client.call("add", a=1, b=2) == 3
    """
    with patch.dict(os.environ, settings):
        app, handlers = _created(create_app)
        lifecycle = Lifecycle(0)
        composed = app.compose(lifecycle, _ready(lifecycle))
        try:
            with TestClient(composed, base_url="http://localhost") as http:
                yield Client(http, path=app.settings.mcp_path)
        finally:
            for handler in handlers:
                handler.flush()  # so that pytest captures the access log as output of this test


def _created(create_app: Callable[[], ASGIApp]) -> tuple[App, list[logging.Handler]]:
    """Return the app of a factory, and the log handlers that the app has made."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    try:
        note_choices()
        app = getattr(create_app, "__wrapped__", create_app)()
    finally:
        own, root.handlers = root.handlers, handlers  # give pytest its handlers back: a test can check the log
        root.setLevel(level)
    if not isinstance(app, App):
        raise TypeError(f"{create_app} returns {type(app).__name__}; return the app of anyreplica.create_app")
    return app, own


@asynccontextmanager
async def _ready(lifecycle: Lifecycle) -> AsyncIterator[None]:
    with lifecycle.running():
        yield


@dataclass(frozen=True)
class Served:
    """A replica that `serve` has started.

    Attributes:
        url: The address of the replica, such as `http://127.0.0.1:43210`. MCP clients need `{url}/mcp`.
        app: The ASGI app of the replica, for HTTP clients that call an app directly.

    Example:

        from fastmcp.client import Client

        from anyreplica.testing import Served

        async def call_add(server: Served) -> object:
            async with Client(f"{server.url}/mcp") as client:
                return (await client.call_tool("add", {"a": 1, "b": 2})).data
    """

    url: str
    app: ASGIApp


@asynccontextmanager
async def serve(create_app: Callable[[], ASGIApp], /, **settings: str) -> AsyncIterator[Served]:
    """Serve an app on a free port, in the event loop of an async test. Any MCP client can call it.

    The tools run in the event loop of the test. So a test and a tool can wait for the same `asyncio.Event`.

    Args:
        create_app: Your app factory.
        settings: Environment variables for this replica, such as `CALL_TIMEOUT_SECONDS="1"`.

    Raises:
        StartupError: The app cannot start.
        TypeError: The factory returns something that `anyreplica.create_app` did not create.

    Example:

        from fastmcp.client import Client

        from anyreplica.testing import serve
        from server.server import create_app

        async def test_add() -> None:
            async with serve(create_app) as server, Client(f"{server.url}/mcp") as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
    """
    with patch.dict(os.environ, settings):
        app, handlers = _created(create_app)
        lifecycle = Lifecycle(0)
        composed = app.compose(lifecycle, _without_signals(lifecycle))
        try:
            async with listening(composed, app.settings, lifecycle) as port:
                yield Served(f"http://127.0.0.1:{port}", composed)
        finally:
            for handler in handlers:
                handler.flush()


@asynccontextmanager
async def _without_signals(lifecycle: Lifecycle) -> AsyncIterator[None]:
    lifecycle.state = "ready"
    try:
        yield
    finally:
        lifecycle.state = "draining"


@contextmanager
def fleet(app: str = "server.server:create_app", /, replicas: int = 3, **settings: str) -> Iterator[Client]:
    """Run real replicas on one free port of this machine, each in its own process.

    Args:
        app: Your app factory, as `module:function`.
        replicas: Number of replicas.
        settings: Environment variables for the replicas.

    Raises:
        RuntimeError: The replicas do not start. The message contains their output.

    Example:

        from anyreplica.testing import fleet

        def test_any_replica() -> None:
            with fleet(replicas=2) as client:
                served = {client.call("server_info")["replica"] for _ in range(50)}
            assert len(served) == 2
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-m", "anyreplica", "run", app, "--replicas", str(replicas)]
    environment = {**os.environ, "DRAIN_SECONDS": "0", "PYTHONUNBUFFERED": "1", **settings, "MCP_PORT": port}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("w") as stream:
            process = subprocess.Popen(command, env=environment, stdout=stream, stderr=subprocess.STDOUT)
        try:
            _wait_for_start(process, log)
            # A new connection for each request, so that each request may reach another replica.
            spread = httpx2.Limits(max_keepalive_connections=0)
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, limits=spread) as http:
                yield Client(http, path=environment.get("MCP_PATH", "/mcp"))
        finally:
            process.terminate()
            try:
                process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for_start(process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while "Ctrl-C stops the replicas" not in log.read_text():
        if process.poll() is not None:
            raise RuntimeError(f"The replicas ended with exit code {process.returncode}:\n{log.read_text()}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"The replicas did not start within {_SECONDS:g} s:\n{log.read_text()}")
        time.sleep(0.05)

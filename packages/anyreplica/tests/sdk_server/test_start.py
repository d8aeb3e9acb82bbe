"""The start of a server of the SDK: what `check` lists, and what is refused or named because it cannot be served."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp import MCPError
from mcp.server import Server
from mcp.server.auth.settings import AuthSettings
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp_types import INVALID_REQUEST, ListPromptsResult, ListToolsResult, RequestParams
from pydantic import AnyHttpUrl

from anyreplica import Settings, StartupError, create_app
from anyreplica.mcp.compat.sdk_server import SdkServer
from anyreplica.mcp.components import cannot_ask
from anyreplica.mcp.sdk_components import notes
from anyreplica.testing import serve
from tests.calls import get
from tests.replicas import KEYS
from tests.sdk_server.served import low, shop
from tests.starts import start

_SERVED = Path(__file__).parent / "served"
OF_SDK = "a server of the MCP SDK"
NEVER_CALLED = "anyreplica never calls this method, because it serves"
NOT_SHARED = "not served, because replicas cannot share"
_SEVERAL = {"mcp_replicas": 2, "request_state_keys": KEYS}


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Give the root logger its handlers back, because `create_app` configures it."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("server", "listed"),
    [
        ("shop.py", ["tools      add, add_tool,", "prompts    broken_prompt,"]),
        ("shop.py", ["resources  shop://broken, shop://items/{name},"]),
        ("shop.py:make", ["shop 1.2.3 (anyreplica 0.2.0): settings and components are valid."]),
        (
            "low.py",
            [
                "low 2 (anyreplica 0.2.0): settings and components are valid.",
                "tools      ask, crash, echo, fail, wrong\n",
            ],
        ),
        ("low.py", ["prompts    p\n"]),
        ("shop.py --repeatable", ["add\n"]),
        ("low.py --repeatable", ["\n"]),
    ],
)
def test_check_lists_what_the_server_offers(server: str, listed: list[str]) -> None:
    """`check` takes the same forms of a server as for FastMCP. A list may have several pages."""
    file, *options = server.split()
    done = start("check", str(_SERVED / file), *options)
    assert (done.returncode, done.stderr) == (0, "")
    for part in listed:
        assert part in done.stdout


def test_a_server_without_a_name_has_that_of_its_file(tmp_path: Path) -> None:
    """The SDK gives all servers without a name the same one. What they keep in Redis must not have the same keys."""
    (tmp_path / "unnamed.py").write_text("from mcp.server.mcpserver import MCPServer\nmcp = MCPServer()\n")
    done = start("check", str(tmp_path / "unnamed.py"))
    assert done.stdout.startswith("unnamed (anyreplica 0.2.0): settings and components are valid."), done


class OwnApp(MCPServer[Any]):
    """A server that changes how the SDK serves it."""

    def streamable_http_app(self, **options: Any) -> Any:
        return super().streamable_http_app(**options)


class OwnBus(InMemorySubscriptionBus):
    """A bus that the author says reaches all replicas."""


def issuing() -> MCPServer[Any]:
    auth = AuthSettings(issuer_url=AnyHttpUrl("https://shop.example.com"), resource_server_url=None)
    return MCPServer("issuing", auth=auth, auth_server_provider=InMemoryOAuthProvider())


@pytest.mark.parametrize(
    ("make", "settings", "said"),
    [
        (lambda: OwnApp("own"), {}, f"OwnApp.streamable_http_app: {NEVER_CALLED}"),
        (issuing, {}, f"MCPServer(auth_server_provider=InMemoryOAuthProvider): {NOT_SHARED}"),
        (shop.make, {"mcp_components": ("tests.packs.scoped",)}, "MCP_COMPONENTS=tests.packs.scoped: "),
        (dict, {}, "This is a builtins.dict; it must be a FastMCP server, or an MCPServer or a low-level Server"),
    ],
)
def test_what_cannot_be_served_is_refused(make: Any, settings: dict[str, Any], said: str) -> None:
    """The line names the method, the option, the setting or the object."""
    with pytest.raises(StartupError) as refused:
        create_app(make(), Settings(**settings))
    assert said in str(refused.value)


def test_a_worker_has_nothing_to_run() -> None:
    """A server of the SDK has no jobs and no tasks."""
    for command, *options in (["worker"], ["check", "--worker"]):
        done = start(command, str(_SERVED / "shop.py"), *options, JOBS_URL="redis://127.0.0.1:1")
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == "The server has no jobs, and no tool has task=True; a worker needs at least one of them\n"


@pytest.mark.parametrize(
    ("server", "settings", "said"),
    [
        (shop.make(), {"handshake_sessions": "full"}, f"HANDSHAKE_SESSIONS=full: {OF_SDK} (MCPServer) has no"),
        (low.make(), {"debug_errors": True}, f"DEBUG_ERRORS: {OF_SDK} (Server) chooses"),
        (MCPServer("own", subscriptions=OwnBus()), _SEVERAL, "subscriptions/listen: the server's own code delivers"),
        (shop.make(), {}, ""),
        (MCPServer("default"), _SEVERAL, ""),
        (Server("empty"), _SEVERAL, ""),
    ],
)
def test_what_has_no_effect_is_named(server: Any, settings: dict[str, Any], said: str) -> None:
    """The log has one line for each setting or part without an effect."""
    app = create_app(server, Settings(**settings))
    assert isinstance(app.mcp, SdkServer)
    found = list(notes(app.mcp, app.settings))
    assert len(found) == bool(said)
    assert all(each.startswith(said) for each in found)


def test_components_that_ask_are_named() -> None:
    """Without sessions, these cannot ask clients of the handshake protocol."""
    app = create_app(shop.make(), Settings())
    assert cannot_ask(app.mcp, app.settings).endswith("cannot ask handshake-protocol clients: buy, elicit")


@pytest.mark.anyio
async def test_a_server_that_refuses_requests_without_a_client_starts() -> None:
    """The requests of a replica to itself before it is ready may be refused by the author's code."""

    refuses, server = AsyncMock(side_effect=MCPError(INVALID_REQUEST, "Not now.")), Server[Any]("strict")
    server.add_request_handler("server/discover", RequestParams, refuses)
    server.add_request_handler("ping", RequestParams, refuses)
    async with serve(lambda: create_app(server)) as served:
        assert await asyncio.to_thread(lambda: get(f"{served.url}/readyz").status_code) == 200


@pytest.mark.anyio
@pytest.mark.parametrize("replaced", [False, True])
async def test_no_code_of_a_low_level_server_runs_before_a_client_asks(replaced: bool) -> None:
    """A replica asks for no list at its start. It warms up with requests that only the SDK's own code answers."""
    ran: list[str] = []

    async def list_tools(*_: Any) -> ListToolsResult:
        ran.append("tools/list")
        return ListToolsResult(tools=[])

    async def list_prompts(*_: Any) -> ListPromptsResult:
        ran.append("prompts/list")
        return ListPromptsResult(prompts=[])

    async def note(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        ran.append(ctx.method)
        return await call_next(ctx)

    async def discover(*_: Any) -> dict[str, Any]:
        ran.append("server/discover")
        return {}

    server = Server[Any]("silent", on_list_tools=list_tools, on_list_prompts=list_prompts)
    if replaced:
        server.add_request_handler("server/discover", RequestParams, discover)
    else:
        server.middleware.append(note)
    async with serve(lambda: create_app(server)) as served:
        assert await asyncio.to_thread(lambda: get(f"{served.url}/readyz").status_code) == 200
        assert ran == []

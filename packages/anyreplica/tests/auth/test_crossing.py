"""Nothing of one caller reaches another one: results, lists, tasks and tools that a key does not permit."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client as FastMCPClient
from fastmcp import FastMCP
from fastmcp.prompts import Prompt
from fastmcp.resources import Resource, ResourceTemplate
from fastmcp.server import create_proxy
from fastmcp.server.auth import StaticTokenVerifier, require_scopes
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers.proxy import ProxyClient, ProxyProvider
from fastmcp.server.transforms.search import RegexSearchTransform
from fastmcp.tools import Tool

from anyreplica import Settings, cached, create_app
from anyreplica.features.keys.key import hash_of
from anyreplica.testing import CallFailed, Client, replica
from tests.calls import ENVELOPE, request

KEYS = {name: f"a-key-with-more-than-32-characters-of-{name}" for name in ("alice", "bob")}


def user(issuer: str, subject: str, *scopes: str) -> dict[str, Any]:
    """Return what a verifier says of a token."""
    return {"client_id": "app", "sub": subject, "iss": issuer, "scopes": list(scopes)}


def login(mcp: FastMCP) -> FastMCP:
    """Give a server a login that accepts the tokens of two issuers, as `JWTVerifier(issuer=[A, B])` does."""
    mcp.auth = StaticTokenVerifier(
        tokens={
            "alice-a": user("https://a.example.com", "alice"),
            "alice-b": user("https://b.example.com", "alice"),
            "admin": user("https://a.example.com", "admin", "admin"),
        }
    )
    return mcp


@contextmanager
def served(mcp: FastMCP, **values: Any) -> Iterator[Client]:
    """Run a replica of a server in this process."""
    given: dict[str, Any] = {"mcp_components": (), **values}
    with replica(lambda: create_app(mcp, Settings(**given))) as client:
        yield client


@contextmanager
def with_keys(mcp: FastMCP, folder: Path, **entries: dict[str, Any]) -> Iterator[Client]:
    """Run a replica whose callers are the holders of `KEYS`. `entries` adds fields to their lines in the key file."""
    lines = [{"id": name, "hash": hash_of(key), **entries.get(name, {})} for name, key in KEYS.items()]
    (folder / "keys").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with served(mcp, auth_enabled=True, api_keys_file=folder / "keys") as client:
        yield client


def whoami() -> str:
    """Return the issuer and the subject of the caller."""
    token = get_access_token()
    assert token is not None
    return f"{token.claims.get('iss')} {token.claims.get('sub') or token.client_id}"


def test_a_cached_result_is_for_one_caller_of_one_issuer() -> None:
    """Two users with the same name, each of another issuer, never get each other's cached result."""
    mcp = login(FastMCP("server"))

    @mcp.tool(meta=cached(ttl=600))
    def mine() -> str:
        return whoami()

    with served(mcp) as client:
        for name, owner in (("alice-a", "a"), ("alice-b", "b"), ("alice-a", "a")):
            assert client.with_token(name).call("mine") == f"https://{owner}.example.com alice"


def test_a_rate_limit_is_for_one_caller_of_one_issuer() -> None:
    """A user cannot use up the rate of a user with the same name at another issuer."""
    mcp = login(FastMCP("server"))
    mcp.tool(whoami)
    with served(mcp, rate_limit="2/h", rate_burst=2) as client:
        for _ in range(2):
            client.with_token("alice-a").call("whoami")
        with pytest.raises(CallFailed, match="rate limit"):
            client.with_token("alice-a").call("whoami")
        assert client.with_token("alice-b").call("whoami") == "https://b.example.com alice"


def test_fastmcps_cache_of_responses_keeps_keys_apart(tmp_path: Path) -> None:
    """FastMCP's cache tells callers apart by their tokens. Each holder of a key has another one, never the key."""
    mcp = FastMCP("server", middleware=[ResponseCachingMiddleware()])
    mcp.tool(whoami)
    mcp.tool(lambda: str(get_access_token()), name="token")
    with with_keys(mcp, tmp_path) as client:
        for name in ("alice", "bob", "alice"):
            assert client.with_token(KEYS[name]).call("whoami") == f"None key:{name}"
            assert KEYS[name] not in client.with_token(KEYS[name]).call("token")


def ask(client: Client, token: str, method: str, params: dict[str, Any], version: str = "2026-07-28") -> Any:
    """Send a request of a client that declares the tasks extension, in one protocol version. Return the response."""
    headers = {"Accept": "application/json", "Authorization": f"Bearer {token}", "MCP-Protocol-Version": version}
    if version >= "2026":
        headers |= {"Mcp-Method": method, "Mcp-Name": params.get("name", params.get("taskId", ""))}
        extensions = {"io.modelcontextprotocol/tasks": dict[str, Any]()}
        capabilities = {"io.modelcontextprotocol/clientCapabilities": {"extensions": extensions}}
        params = {**params, "_meta": {**ENVELOPE, **capabilities}}
    return client.http.post("/mcp", json=request(method, params), headers=headers).json()


def listed(client: Client, token: str, version: str) -> list[str]:
    """Return the names of the tools that a caller gets."""
    return sorted(each["name"] for each in ask(client, token, "tools/list", {}, version)["result"]["tools"])


VERSIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]
SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "API", "version": "1"},
    "paths": {
        "/wipe": {"get": {"operationId": "wipe", "responses": {"200": {"description": "done"}}}},
        "/look": {"get": {"operationId": "look", "responses": {"200": {"description": "done"}}}},
    },
}


def only_for_admins(_: Any, component: Any) -> None:
    """Protect a component of the API `wipe`."""
    if component.name == "wipe":
        component.auth = require_scopes("admin")


def of_openapi() -> FastMCP:
    """Return a server with an API, one of whose tools is only for admins."""
    api = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(200)), base_url="http://a.test")
    return FastMCP.from_openapi(SPEC, api, name="api", mcp_component_fn=only_for_admins)


def mounted() -> FastMCP:
    """Return a server with this server mounted."""
    front = FastMCP("front")
    front.mount(of_openapi())
    return front


def injecting() -> FastMCP:
    """Return a server with a middleware that injects tools, one of them only for admins."""
    mcp = FastMCP("server")
    wipe = Tool.from_function(lambda: "done", name="wipe", auth=require_scopes("admin"))
    mcp.add_middleware(ToolInjectionMiddleware([wipe, Tool.from_function(lambda: "done", name="look")]))
    return mcp


class Hiding(FastMCP):
    """A server that hides a tool from everybody but admins, in its own way."""

    async def list_tools(self, *, run_middleware: bool = True) -> Any:
        token = get_access_token()
        found = await super().list_tools(run_middleware=run_middleware)
        return [tool for tool in found if tool.name != "wipe" or (token is not None and "admin" in token.scopes)]


def overriding() -> FastMCP:
    """Return a server of a class that overrides `list_tools`."""
    mcp = Hiding("server")
    for name in ("wipe", "look"):
        mcp.tool(lambda: "done", name=name)
    return mcp


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("first", ["admin", "alice-a"])
@pytest.mark.parametrize("made", [of_openapi, mounted, injecting, overriding])
def test_a_list_with_checks_is_not_cached(made: Callable[[], FastMCP], first: str, version: str) -> None:
    """Whoever asks first, each caller gets the list of the tools that it may use."""
    expected = {"admin": ["look", "wipe"], "alice-a": ["look"]}
    with served(login(made())) as client:
        for token in (first, "admin", "alice-a", "admin"):
            assert listed(client, token, version) == expected[token]


LISTS = {
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
    "prompts/list": ("prompts", "name"),
}
"""The method of each other list, its field in the result, and the field that identifies an entry."""


def with_checks() -> FastMCP:
    """Return a server with a resource, a template and a prompt for everybody, and one each for admins."""
    mcp = FastMCP("server")
    for name, check in (("look", None), ("wipe", require_scopes("admin"))):
        mcp.add_resource(Resource.from_function(lambda: "done", uri=f"{name}://it", name=name, auth=check))
        mcp.add_template(
            ResourceTemplate.from_function(lambda x: x, uri_template=f"{name}://{{x}}", name=name, auth=check)
        )
        mcp.add_prompt(Prompt.from_function(lambda: "done", name=name, auth=check))
    return mcp


def with_checks_below() -> FastMCP:
    """Return a server with this server mounted."""
    front = FastMCP("front")
    front.mount(with_checks())
    return front


class HidingAll(FastMCP):
    """A server that hides all but the tools from everybody but admins, in its own way."""

    async def list_resources(self, *, run_middleware: bool = True) -> Any:
        return _for_admins(await super().list_resources(run_middleware=run_middleware))

    async def list_resource_templates(self, *, run_middleware: bool = True) -> Any:
        return _for_admins(await super().list_resource_templates(run_middleware=run_middleware))

    async def list_prompts(self, *, run_middleware: bool = True) -> Any:
        return _for_admins(await super().list_prompts(run_middleware=run_middleware))


def _for_admins(found: Any) -> Any:
    token = get_access_token()
    is_admin = token is not None and "admin" in token.scopes
    return [each for each in found if is_admin or "wipe" not in each.key]


def overriding_all() -> FastMCP:
    """Return a server of a class that overrides the lists."""
    mcp = HidingAll("server")
    for name in ("look", "wipe"):
        mcp.add_resource(Resource.from_function(lambda: "done", uri=f"{name}://it", name=name))
        mcp.add_template(ResourceTemplate.from_function(lambda x: x, uri_template=f"{name}://{{x}}", name=name))
        mcp.add_prompt(Prompt.from_function(lambda: "done", name=name))
    return mcp


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("first", ["admin", "alice-a"])
@pytest.mark.parametrize("made", [with_checks, with_checks_below, overriding_all])
def test_no_list_with_checks_is_cached(made: Callable[[], FastMCP], first: str, version: str) -> None:
    """Resources, templates and prompts: whoever asks first, each caller gets the list of what it may use."""
    with served(login(made())) as client:
        for method, (field, identity) in LISTS.items():
            for token in (first, "admin", "alice-a", "admin"):
                found = ask(client, token, method, {}, version)["result"][field]
                names = sorted(each[identity].partition(":")[0] for each in found)
                assert names == (["look", "wipe"] if token == "admin" else ["look"]), (method, token)


def kid_server() -> FastMCP:
    """Return a server whose tools are only found by a search."""
    kid = FastMCP("kid")

    @kid.tool
    def wipe() -> str:
        """Wipe the disk."""
        return "wiped"

    @kid.tool
    def peek() -> str:
        """Look at the disk."""
        return "seen"

    kid.add_transform(RegexSearchTransform())
    return kid


def searching(name: str = "kid") -> FastMCP:
    """Return a server with a mounted server whose tools are only found by a search."""
    front = FastMCP("front")
    front.mount(kid_server(), namespace=name)
    return front


def in_front_of(target: Any) -> FastMCP:
    """Return a server with a mounted proxy of a server."""
    front = FastMCP("front")
    front.mount(create_proxy(target), namespace="kid")
    return front


def with_clients(make: Callable[[], Any]) -> FastMCP:
    """Return a server whose own provider is a proxy with a function that makes its clients."""
    front = FastMCP("front")
    front.add_provider(ProxyProvider(make), namespace="kid")
    return front


def proxied_by_async_function() -> FastMCP:
    """Return a server with a proxy that awaits its clients."""
    kid = kid_server()

    async def make() -> ProxyClient[Any]:
        return ProxyClient(kid)

    return with_clients(make)


def proxied_once_more() -> FastMCP:
    """Return a server with a proxy of a proxy."""
    return in_front_of(create_proxy(kid_server()))


def proxied_with_a_mounted_server() -> FastMCP:
    """Return a server with a proxy of a server that has mounted the one with the search."""
    middle = FastMCP("middle")
    middle.mount(kid_server())
    return in_front_of(middle)


def proxied_after_a_list() -> FastMCP:
    """Return a server with a proxy that has listed its tools before the start."""
    front = in_front_of(kid_server())
    asyncio.run(front.list_tools())
    return front


TOOLS = {
    "alice": {
        "tools": [f"kid_{inner}{name}" for inner in ("", "inner_") for name in ("call_tool", "search_tools", "peek")]
    }
}


def check_search(client: Client, prefix: str = "kid_") -> None:
    """Check that alice finds and runs only what her key permits, whoever was there before."""
    alice, bob = (client.with_token(KEYS[name]) for name in ("alice", "bob"))
    for _ in range(2):
        found = str(alice.call(f"{prefix}search_tools", pattern="disk"))
        assert "peek" in found
        assert "wipe" not in found
        assert sorted(alice.tools()) == [f"{prefix}call_tool", f"{prefix}search_tools"]
        assert "wipe" in str(bob.call(f"{prefix}search_tools", pattern="disk"))
        assert bob.call(f"{prefix}call_tool", name="wipe", arguments={}) in ("wiped", {"result": "wiped"})
        assert alice.call(f"{prefix}call_tool", name="peek", arguments={}) in ("seen", {"result": "seen"})
        refused = []
        for name in ("wipe", "no_such_tool"):
            with pytest.raises(CallFailed) as failed:
                alice.call(f"{prefix}call_tool", name=name, arguments={})
            refused.append(str(failed.value))
        assert refused[0].replace("wipe", "no_such_tool") == refused[1]


@pytest.mark.parametrize(
    "made",
    [
        searching,
        lambda: in_front_of(kid_server()),
        lambda: in_front_of(FastMCPClient(kid_server())),
        proxied_by_async_function,
        proxied_once_more,
        proxied_with_a_mounted_server,
        proxied_after_a_list,
    ],
)
def test_a_search_finds_only_what_a_key_permits(made: Callable[[], FastMCP], tmp_path: Path) -> None:
    """The tools of a key also hold for a search in a server that is mounted or proxied, and for its calls."""
    with with_keys(made(), tmp_path, **TOOLS) as client:
        check_search(client)


def test_a_proxy_keeps_no_list_of_one_caller(tmp_path: Path) -> None:
    """A proxy keeps the list of its tools for all callers. The first caller does not decide what is in it."""
    kid = FastMCP("kid")
    for name in ("wipe", "peek"):
        kid.tool(lambda: "done", name=name)
    with with_keys(in_front_of(kid), tmp_path, **TOOLS) as client:
        alice, bob = (client.with_token(KEYS[name]) for name in ("alice", "bob"))
        assert alice.tools() == ["kid_peek"]
        assert alice.call("kid_peek") == "done"
        assert bob.call("kid_wipe") == "done"
        assert sorted(bob.tools()) == ["kid_peek", "kid_wipe"]
        with pytest.raises(CallFailed):
            alice.call("kid_wipe")


def test_a_search_in_a_server_that_is_mounted_later(tmp_path: Path) -> None:
    """The tools of a key hold in a server that is mounted while the replica runs."""
    front = FastMCP("front")
    with with_keys(front, tmp_path, **TOOLS) as client:
        assert client.with_token(KEYS["alice"]).tools() == []
        front.mount(searching("inner"), namespace="kid")
        check_search(client, "kid_inner_")


def test_mounted_tools_are_planned_when_callers_have_keys(tmp_path: Path) -> None:
    """The replica itself sees all tools of mounted and proxied servers, so mounted ones take the fast path."""
    front = in_front_of(kid_server())
    other = FastMCP("other")
    other.tool(lambda: "done", name="look")
    front.mount(other, namespace="other")
    with with_keys(front, tmp_path) as client:
        version = client.http.get("/version", headers={"Authorization": f"Bearer {KEYS['bob']}"})
    paths = version.json()["paths"]
    assert paths["other_look"] == "fast"
    assert "kid_call_tool" in paths


@pytest.mark.parametrize("other", ["alice-b", "admin"])
def test_a_task_is_for_one_caller_of_one_issuer(other: str) -> None:
    """A task is unknown to a user with the same name at another issuer, as it is to anybody else."""
    mcp = login(FastMCP("server"))

    @mcp.tool(task=True)
    async def slow() -> str:
        return whoami()

    with served(mcp) as client:
        params: dict[str, Any] = {"name": "slow", "arguments": {}}
        task = ask(client, "alice-a", "tools/call", params)["result"]["taskId"]
        assert ask(client, "alice-a", "tasks/get", {"taskId": task})["result"]["taskId"] == task
        for method in ("tasks/get", "tasks/cancel"):
            mine = ask(client, other, method, {"taskId": task})["error"]
            absent = ask(client, other, method, {"taskId": "no-such-task"})["error"]
            assert mine["code"] == absent["code"]
            assert mine["message"].replace(task, "no-such-task") == absent["message"]

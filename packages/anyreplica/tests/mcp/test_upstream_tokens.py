"""Proxies, and clients with `CallerAuth`, send a token that was exchanged for the caller's, if the file names the host.

The tests are in process: the authorization server and the other servers run in threads.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import FastMCP
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server import create_proxy
from fastmcp.server.auth import StaticTokenVerifier
from fastmcp.server.dependencies import get_http_request
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers.proxy import _CacheEntry

from anyreplica import Settings, create_app, downstream
from anyreplica.testing import CallFailed, Client, replica
from tests.auth.test_crossing import ask
from tests.downstream.exchange.authorization_server import Api, AuthorizationServer, own
from tests.downstream.exchange.conftest import Exchanging
from tests.downstream.exchange.served import Reply, served
from tests.mcp.test_forwarding import SPEC, proxied
from tests.mcp.upstream import serving

KEY = "a-key-with-more-than-32-characters-for-a-caller"


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    """The URL of another MCP server, see `serving`."""
    with serving() as url:
        yield url


@pytest.fixture
def exchanging(tmp_path: Path) -> Iterator[Exchanging]:
    """An authorization server, and an API behind it."""
    tokens = AuthorizationServer()
    api = Api(tokens)
    with served(tokens) as tokens.host, served(api) as api.host:
        yield Exchanging(tmp_path, tokens, api)


class Users:
    """Clients of a replica, each with the token of its user."""

    def __init__(self, client: Client, tokens: dict[str, str]) -> None:
        self._client, self._tokens = client, tokens

    def authorization(self, user: str, kind: str = "tool") -> str:
        """Return the Authorization header that the other server gets, for a call of this user."""
        client = self._client.with_token(self._tokens[user])
        seen: Any = client.call("seen") if kind == "tool" else None
        if kind == "resource":
            seen = json.loads(client.read("seen://headers"))
        assert isinstance(seen, dict)
        found: str = seen.get("authorization", "")
        return found


@contextmanager
def logged_in(mcp: FastMCP, file: Path, **values: Any) -> Iterator[Users]:
    """Run a replica whose callers log in with tokens, and one with a key."""
    tokens = {name: own(name) for name in ("ada", "bob")}
    said = {token: {"client_id": "app", "sub": name, "iss": "https://a.example.com"} for name, token in tokens.items()}
    mcp.auth = StaticTokenVerifier(tokens={token: {**each, "scopes": []} for token, each in said.items()})
    given: dict[str, Any] = {"mcp_components": (), "downstream_tokens_file": file, **values}
    with replica(lambda: create_app(mcp, Settings(**given))) as client:
        yield Users(client, tokens)


def named(exchanging: Exchanging, url: str, **fields: str) -> Path:
    """Write a file that names the host of a URL."""
    exchanging.api.host = httpx2.URL(url).netloc.decode()
    exchanging.fields.update(fields)
    return exchanging.file()


@pytest.mark.parametrize("form", ["url", "client.json", "mounted"])
def test_a_proxied_server_gets_the_exchanged_token(upstream: str, exchanging: Exchanging, form: str) -> None:
    """Every form of proxy calls a server that the file names with a token of the caller, never with another's."""
    with logged_in(proxied(upstream, form), named(exchanging, upstream)) as users:
        for user in ("ada", "bob", "ada"):
            token = users.authorization(user).removeprefix("Bearer ")
            assert exchanging.tokens.owners[token] == user
        assert exchanging.tokens.owners[users.authorization("bob", "resource").removeprefix("Bearer ")] == "bob"
    assert exchanging.tokens.asked == 2
    assert exchanging.tokens.refused == []


def test_several_proxied_servers(upstream: str, exchanging: Exchanging) -> None:
    """With several servers in a `client.json`, only the named ones get a token."""
    other = upstream.replace("127.0.0.1", "localhost")
    mcp = create_proxy({"mcpServers": {"a": {"url": upstream}, "b": {"url": other}}}, name="front")
    with logged_in(mcp, named(exchanging, upstream)) as users:
        client = users._client.with_token(users._tokens["ada"])
        assert client.tools() == ["a_seen", "b_seen"]  # FastMCP's proxies remember what they have listed
        named_one, other_one = (dict(client.call(f"{name}_seen")) for name in ("a", "b"))
        assert exchanging.tokens.owners[named_one["authorization"].removeprefix("Bearer ")] == "ada"
        assert "authorization" not in other_one


@pytest.fixture
def personal(exchanging: Exchanging) -> Iterator[str]:
    """The URL of a server that lists, for each user of the exchanged tokens, only components of this user."""

    class OfTheUser(Middleware):
        def mine(self, components: Sequence[Any]) -> list[Any]:
            token = get_http_request().headers.get("authorization", "").removeprefix("Bearer ")
            return [each for each in components if each.name == f"of_{exchanging.tokens.owners.get(token)}"]

        async def on_list_tools(self, context: Any, call_next: Any) -> list[Any]:
            return self.mine(await call_next(context))

        async def on_list_resources(self, context: Any, call_next: Any) -> list[Any]:
            return self.mine(await call_next(context))

        async def on_list_resource_templates(self, context: Any, call_next: Any) -> list[Any]:
            return self.mine(await call_next(context))

        async def on_list_prompts(self, context: Any, call_next: Any) -> list[Any]:
            return self.mine(await call_next(context))

    mcp = FastMCP("personal", middleware=[OfTheUser()])

    def add(name: str) -> None:
        mcp.tool(lambda: name, name=f"of_{name}")
        mcp.resource(f"of://{name}", name=f"of_{name}")(lambda: name)
        mcp.prompt(lambda: name, name=f"of_{name}")

    add("ada")
    add("bob")
    with serving(mcp) as url:
        yield url


@pytest.mark.parametrize("form", ["url", "client.json", "mounted"])
def test_each_caller_gets_its_own_lists(personal: str, exchanging: Exchanging, form: str) -> None:
    """A list that the other server gives one caller is never used for another one: not in lists, and not in calls."""
    with logged_in(proxied(personal, form), named(exchanging, personal)) as users:
        for one, another in (("ada", "bob"), ("bob", "ada")) * 2:
            for kind in ("tools", "resources", "prompts"):
                listed = ask(users._client, users._tokens[one], f"{kind}/list", {})["result"][kind]
                assert [each["name"] for each in listed] == [f"of_{one}"]
            client = users._client.with_token(users._tokens[another])  # the last lists were those of the other user
            assert client.call(f"of_{another}") == another
            assert client.read(f"of://{another}") == another
            assert client.prompt(f"of_{another}") == another
            with pytest.raises(CallFailed, match="Unknown tool"):
                client.call(f"of_{one}")


def test_proxies_keep_lists_while_no_server_gets_a_token(upstream: str, exchanging: Exchanging) -> None:
    """FastMCP's way holds for proxies of servers that the file does not name."""
    with logged_in(proxied(upstream, "url"), exchanging.file()) as users:
        users.authorization("ada")
        assert _CacheEntry([], time.monotonic()).is_fresh(60)
    with logged_in(proxied(upstream, "url"), named(exchanging, upstream)) as users:
        users.authorization("ada")
        assert not _CacheEntry([], time.monotonic()).is_fresh(60)
    with logged_in(proxied(upstream, "url"), named(exchanging, "http://127.0.0.1:1/mcp")) as users:
        assert _CacheEntry([], time.monotonic()).is_fresh(60)


def test_no_other_server_gets_a_token(upstream: str, exchanging: Exchanging) -> None:
    """A server that the file does not name gets no token, and neither does one that a tool calls itself."""
    with logged_in(proxied(upstream, "url"), named(exchanging, "http://127.0.0.1:1/mcp")) as users:
        assert users.authorization("ada") == ""
    with logged_in(proxied(upstream, "a client in a tool"), named(exchanging, upstream)) as users:
        assert users.authorization("ada") == ""
    assert exchanging.tokens.asked == 0


def test_what_the_author_has_configured_comes_first(upstream: str, exchanging: Exchanging) -> None:
    """A proxy with credentials of its own keeps them."""
    for transport in (
        StreamableHttpTransport(upstream, auth="the-author-s"),
        StreamableHttpTransport(upstream, headers={"authorization": "Bearer the-author-s"}),
    ):
        with logged_in(create_proxy(transport, name="front"), named(exchanging, upstream)) as users:
            assert users.authorization("ada") == "Bearer the-author-s"
    assert exchanging.tokens.asked == 0


def test_a_token_of_a_proxy_never_goes_over_plain_http(
    exchanging: Exchanging, caplog: pytest.LogCaptureFixture
) -> None:
    """A proxy of a server at `http://` gets an error instead of a token, unless the server is this machine."""
    url = "http://0.0.0.0:1/mcp"  # an address of this machine that is not a loopback address
    with logged_in(proxied(url, "url"), named(exchanging, url)) as users, pytest.raises(CallFailed):
        users.authorization("ada")
    assert "its token must not go over plain HTTP" in caplog.text
    assert exchanging.tokens.asked == 0


def test_a_refused_token_of_a_proxy_is_replaced(upstream: str, exchanging: Exchanging) -> None:
    """If the other server answers 401, the next call has a new token."""
    url = f"http://{exchanging.api.host}/mcp"
    exchanging.api.instead = lambda: Reply(401)
    with logged_in(proxied(url, "url"), named(exchanging, url)) as users:
        of_calls = list[set[str]]()
        for _ in range(2):
            exchanging.api.authorizations.clear()
            with pytest.raises(CallFailed):
                users.authorization("ada")
            of_calls.append({each for each in exchanging.api.authorizations if each})
    first, second = of_calls  # since FastMCP 4.2, a call asks the other server twice
    assert first
    assert second
    assert not first & second


def test_a_caller_without_a_token_cannot_use_the_proxy(
    upstream: str, exchanging: Exchanging, caplog: pytest.LogCaptureFixture
) -> None:
    """The other server gets no request of a caller with a key, whose proxied call gets an error."""
    mcp, file = proxied(upstream, "url"), named(exchanging, upstream)
    values: dict[str, Any] = {
        "mcp_components": (),
        "auth_enabled": True,
        "auth_token": KEY,
        "downstream_tokens_file": file,
    }
    with replica(lambda: create_app(mcp, Settings(**values))) as client, pytest.raises(CallFailed):
        client.with_token(KEY).call("seen")
    assert "the caller has no token that can be exchanged" in caplog.text
    assert exchanging.tokens.asked == 0


def behind_openapi(url: str, **options: Any) -> FastMCP:
    """Return a server of an API whose HTTP client authenticates with `CallerAuth`."""
    api = httpx2.AsyncClient(base_url=url, auth=downstream.CallerAuth(), **options)
    return FastMCP.from_openapi(SPEC, api, name="front")


def test_an_api_behind_openapi_gets_the_exchanged_token(exchanging: Exchanging) -> None:
    """With `CallerAuth`, the API sees the user of each call. A token that it refuses is replaced once."""
    url = f"http://{exchanging.api.host}"
    with logged_in(behind_openapi(url), exchanging.file()) as users:
        for user in ("ada", "bob", "ada"):
            assert users._client.with_token(users._tokens[user]).call("seen") == {"user": user}
        assert exchanging.tokens.asked == 2
        exchanging.tokens.revoked |= exchanging.tokens.owners.keys()
        assert users._client.with_token(users._tokens["ada"]).call("seen") == {"user": "ada"}
        assert exchanging.tokens.asked == 3
    assert exchanging.tokens.refused == []


@pytest.mark.parametrize(
    ("url", "named_url", "error"),
    [
        ("https://api.example.com", "https://other.example.com", "has no token exchange"),
        ("http://api.example.com", "http://api.example.com", "must not go over plain HTTP"),
    ],
)
def test_an_api_is_not_called_without_a_token(exchanging: Exchanging, url: str, named_url: str, error: str) -> None:
    """A request that must not carry a token is not sent at all."""
    sent = list[httpx2.Request]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, json={})

    mcp = behind_openapi(url, transport=httpx2.MockTransport(answer))
    with logged_in(mcp, named(exchanging, named_url)) as users, pytest.raises(CallFailed, match=error):
        users.authorization("ada")
    assert sent == []

"""Callers that ASGI middleware of the server's author authenticates are callers like all others."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import get_http_request
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, BaseUser, SimpleUser, UnauthenticatedUser
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from anyreplica import Feature, Parts, Position, Replica, Settings, cached, create_app
from anyreplica.auth.authentication import Authentication
from anyreplica.auth.caller import Caller, owner_of
from anyreplica.auth.own_authentication import OwnAuthentication
from anyreplica.http.request_record import record_of
from anyreplica.testing import CallFailed, Client, replica
from tests.auth.test_crossing import ask

KEY = "a-key-with-more-than-32-characters-of-a-gateway"


class Nameless(BaseUser):
    """A user whose class says nothing but that it is authenticated."""

    is_authenticated = True


def with_token(name: str) -> object:
    """Return a user of the MCP SDK, as its own middleware does."""
    claims = {"iss": "https://a.example.com", "sub": name}
    return AuthenticatedUser(AccessToken(token=f"token-of-{name}", client_id="app", scopes=[], claims=claims))


def nobody(_: str) -> None:
    """Return no user, as a middleware does that only lets requests pass or not."""


class Guard:
    """ASGI middleware that authenticates callers by their names in a header, and refuses strangers."""

    def __init__(self, app: ASGIApp, user: Callable[[str], object] = SimpleUser) -> None:
        self.app = app
        self.user = user

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Request(scope).headers
            name = headers.get("x-user") or headers.get("authorization", "").removeprefix("Bearer ")
            if not name:
                await PlainTextResponse("who are you?", 401)(scope, receive, send)
                return
            if (user := self.user(name)) is not None:
                scope["user"], scope["auth"] = user, AuthCredentials(["read"])
        await self.app(scope, receive, send)


def tools(mcp: FastMCP) -> FastMCP:
    """Add a cached tool that returns its caller, one that runs as a task, and one that returns the headers."""

    def whoami() -> str:
        return str(get_http_request().headers.get("x-name"))

    mcp.tool(whoami, name="mine", meta=cached(ttl=600))
    mcp.tool(whoami)
    mcp.tool(lambda: dict(get_http_request().headers), name="headers")

    @mcp.tool(task=True)
    async def slow() -> str:
        return "done"

    return mcp


class Adding(FastMCP):
    """A server that adds the middleware in its own `http_app`."""

    user: Callable[[str], object] = SimpleUser

    def http_app(self, *args: Any, **kwargs: Any) -> Any:
        app = super().http_app(*args, **kwargs)
        app.add_middleware(Guard, user=self.user)
        return app


@contextmanager
def in_http_app(user: Callable[[str], object], **values: Any) -> Iterator[Client]:
    """Serve with the middleware in a method of the server's class."""
    mcp = Adding("server")
    mcp.user = user
    with replica(lambda: create_app(tools(mcp), Settings(mcp_components=(), **values))) as client:
        yield client


@contextmanager
def in_create_app(user: Callable[[str], object], **values: Any) -> Iterator[Client]:
    """Serve with the middleware as an argument of `create_app`."""
    settings, guard = Settings(mcp_components=(), **values), Middleware(Guard, user=user)
    with replica(lambda: create_app(tools(FastMCP("server")), settings, middleware=[guard])) as client:
        yield client


@contextmanager
def in_feature(user: Callable[[str], object], **values: Any) -> Iterator[Client]:
    """Serve with the middleware of a feature."""

    class Guarded(Feature):
        def attach(self, replica: Replica) -> Parts:  # noqa: ARG002
            return Parts(middleware=[(Position.BEFORE_AUTHENTICATION, lambda app: Guard(app, user))])

    settings = Settings(mcp_components=(), **values)
    with replica(lambda: create_app(tools(FastMCP("server")), settings, features=[Guarded])) as client:
        yield client


@contextmanager
def around(user: Callable[[str], object], **values: Any) -> Iterator[Client]:
    """Serve below an app with the middleware."""
    inner = create_app(tools(FastMCP("server")), Settings(mcp_components=(), **values))
    outer = Starlette(routes=[Mount("/api", inner)], middleware=[Middleware(Guard, user=user)], lifespan=inner.lifespan)
    with TestClient(outer, base_url="http://localhost/api") as http:
        yield Client(http, path="/mcp")


PLACES = [in_http_app, in_create_app, in_feature, around]
USERS = [SimpleUser, with_token, str]


def as_user(client: Client, name: str) -> Client:
    """Return the client of a user. A tool sees the name, and not the token."""
    found = client.with_token(name)
    found._headers["X-Name"] = name
    return found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("user", USERS)
def test_a_result_is_cached_for_its_caller_only(place: Any, user: Callable[[str], object]) -> None:
    """A cached result of one user never goes to another one, and the same user gets it again."""
    with place(user) as client:
        for name in ("alice", "bob", "alice"):
            assert as_user(client, name).call("mine") == name
        again = as_user(client, "alice")
        again._headers["X-Name"] = "somebody else"
        assert again.call("mine") == "alice"


@pytest.mark.parametrize("place", PLACES)
def test_a_task_is_for_its_caller_only(place: Any) -> None:
    """A task is unknown to another user."""
    with place(SimpleUser) as client:
        task = ask(client, "alice", "tools/call", {"name": "slow", "arguments": {}})["result"]["taskId"]
        assert ask(client, "alice", "tasks/get", {"taskId": task})["result"]["taskId"] == task
        assert "error" in ask(client, "bob", "tasks/get", {"taskId": task})


def initialize(client: Client, name: str) -> str:
    """Start a session, and return its id."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    return str(client.http.post("/mcp", json=message, headers=headers_of(name)).headers["mcp-session-id"])


def headers_of(name: str, **more: str) -> dict[str, str]:
    """Return the headers of a request of a user."""
    accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
    return {**accepted, "Authorization": f"Bearer {name}", **more}


def status_in(client: Client, name: str, session: str) -> int:
    """Return the status of a request in a session."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    return client.http.post("/mcp", json=message, headers=headers_of(name, **{"Mcp-Session-Id": session})).status_code


@pytest.mark.parametrize("user", [SimpleUser, with_token, nobody])
def test_a_session_is_for_its_caller_only(user: Callable[[str], object]) -> None:
    """Another user gets 404. If the middleware names no user, only the same token opens the session."""
    with in_http_app(user, handshake_sessions="full") as client:
        session = initialize(client, "alice")
        assert [status_in(client, name, session) for name in ("alice", "bob", "alice")] == [200, 404, 200]


@pytest.mark.parametrize("place", PLACES)
def test_each_caller_has_a_rate_of_its_own(place: Any) -> None:
    """One user cannot use up the rate of another one, and the common rate holds for each of them."""
    with place(SimpleUser, rate_limit="2/h", rate_burst=2) as client:
        for _ in range(2):
            as_user(client, "alice").call("whoami")
        with pytest.raises(CallFailed, match="rate limit"):
            as_user(client, "alice").call("whoami")
        assert as_user(client, "bob").call("whoami") == "bob"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("user", [*USERS, lambda _: Nameless()])
def test_tools_do_not_see_the_credentials(place: Any, user: Callable[[str], object]) -> None:
    """The token of an authenticated user is not in the headers of a tool; other headers are."""
    with place(user) as client:
        seen = as_user(client, "alice").call("headers")
        assert "authorization" not in seen
        assert seen["x-name"] == "alice"


@pytest.mark.parametrize("user", [nobody, lambda _: Nameless()])
def test_nothing_is_shared_if_no_identity_is_known(user: Callable[[str], object]) -> None:
    """If the middleware does not say who the caller is, no result is cached, and a task needs the same token."""
    with in_create_app(user) as client:
        for name in ("alice", "bob"):
            assert as_user(client, name).call("mine") == name
        task = ask(client, "alice", "tools/call", {"name": "slow", "arguments": {}})["result"]["taskId"]
        assert "result" in ask(client, "alice", "tasks/get", {"taskId": task})
        assert "error" in ask(client, "bob", "tasks/get", {"taskId": task})


def test_a_token_is_no_way_around_a_rate() -> None:
    """If nobody has verified a token, another token has no other rate."""
    with in_create_app(nobody, rate_limit="1/h", rate_burst=1) as client:
        as_user(client, "alice").call("whoami")
        with pytest.raises(CallFailed, match="rate limit"):
            as_user(client, "mallory").call("whoami")


def behind_gateway(client: Client, name: str) -> Client:
    """Return the client of a user of a gateway with a key."""
    user = as_user(client, KEY)
    user._headers |= {"X-User": name, "X-Name": name}
    return user


@pytest.mark.parametrize("place", PLACES[1:])
def test_a_gateway_with_one_key_has_many_users(place: Any) -> None:
    """With a key and a user, nothing goes to another user, and the rate is that of the key."""
    values: dict[str, Any] = {"auth_enabled": True, "auth_token": KEY, "rate_limit": "4/h", "rate_burst": 4}
    with place(SimpleUser, **values) as client:
        for name in ("alice", "bob", "alice", "bob"):
            user = behind_gateway(client, name)
            assert user.call("mine") == name
        with pytest.raises(CallFailed, match="rate limit"):
            user.call("mine")


@pytest.mark.parametrize("place", PLACES[1:])
def test_a_task_is_for_one_user_of_a_gateway(place: Any) -> None:
    """A task of a user is unknown to another user of the same gateway."""
    with place(SimpleUser, auth_enabled=True, auth_token=KEY) as client:
        client.http.headers["X-User"] = "alice"
        task = ask(client, KEY, "tools/call", {"name": "slow", "arguments": {}})["result"]["taskId"]
        assert "result" in ask(client, KEY, "tasks/get", {"taskId": task})
        client.http.headers["X-User"] = "bob"
        assert "error" in ask(client, KEY, "tasks/get", {"taskId": task})


class OneKey:
    """A source that knows one caller."""

    required_scopes = ()

    def __init__(self, caller: Caller, *, at_once: bool) -> None:
        self._caller = caller
        self._at_once = at_once

    def known(self, token: bytes) -> Caller | None:  # noqa: ARG002
        return self._caller if self._at_once else None

    async def caller(self, token: bytes) -> Caller | None:  # noqa: ARG002
        return self._caller


def guarded(user: object, *, at_once: bool) -> Scope:
    """Return the scope of a request with a key behind the authentication, and with a user before it."""
    seen = list[Scope]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def unused(*_: Any) -> Any:
        raise AssertionError

    key = Caller("key:gateway", "key:gateway", owner="tenant", scopes=["of-the-key"])
    authentication = Authentication(Settings(mcp_components=()), [OneKey(key, at_once=at_once)], [], [])
    scope: Scope = {"type": "http", "path": "/mcp", "headers": [(b"authorization", b"Bearer x")], "user": user}
    scope["auth"] = AuthCredentials(["of-the-user"])
    OwnAuthentication([Middleware(Guard)], []).identify(scope)
    asyncio.run(authentication.guard(app)(scope, unused, unused))  # type: ignore[arg-type]
    return seen[0]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_user_before_the_authentication_stays_known(at_once: bool) -> None:
    """The caller is the key for the user. Without an identity of the user, only the owner shows that there is one."""
    scope = guarded(SimpleUser("ada"), at_once=at_once)
    caller = record_of(scope).caller
    assert scope["user"] is caller
    assert (caller.name, caller.identity) == ("user:ada>key:gateway", "key:gateway")
    assert caller.owner == f"tenant>{getattr(identified(SimpleUser('ada')), 'owner', '')}"
    assert caller.scopes == scope["auth"].scopes == ["of-the-user"]

    scope = guarded(Nameless(), at_once=at_once)
    assert record_of(scope).caller.name == "key:gateway"
    assert record_of(scope).unknown.is_authenticated
    assert owner_of(scope).startswith("tenant>credentials:")

    for nobody_known in (None, UnauthenticatedUser()):
        scope = guarded(nobody_known, at_once=at_once)
        assert record_of(scope).unknown is None
        assert owner_of(scope) == "tenant"


def test_middleware_that_names_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """A user that is not authenticated, and middleware that cannot authenticate, leave the callers anonymous."""
    anonymous = Middleware(Guard, user=lambda _: UnauthenticatedUser())
    cors = Middleware(CORSMiddleware, allow_origins=["*"])
    for each in (anonymous, cors):
        mcp, settings = tools(FastMCP("server")), Settings(mcp_components=())
        with replica(lambda: create_app(mcp, settings, middleware=[each])) as client:  # noqa: B023
            assert [as_user(client, name).call("mine") for name in ("alice", "bob")] == ["alice", "alice"]
            assert as_user(client, "alice").call("headers")["authorization"] == "Bearer alice"
    assert "sets no scope" not in caplog.text


def test_the_log_says_that_callers_cannot_be_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    """One line names the middleware that says nothing of the callers."""
    caplog.set_level("INFO", "anyreplica")
    with in_create_app(nobody) as client:
        for _ in range(2):
            as_user(client, "alice").call("whoami")
    lines = [line for line in caplog.messages if 'sets no scope["user"]' in line]
    assert len(lines) == 1
    assert lines[0].startswith("Middleware Guard ")


def identified(user: object, **more: Any) -> Caller | None:
    """Return the caller that is found for a user."""
    scope = {"type": "http", "headers": [(b"authorization", b"Bearer x")], "user": user, **more}
    OwnAuthentication([Middleware(Guard)], []).identify(scope)
    found: Caller | None = record_of(scope).caller
    return found


class Numbered(SimpleUser):
    """A user with an identity other than its name."""

    @property
    def identity(self) -> Any:
        return 7


def test_identities_and_names() -> None:
    """Users of different kinds are different callers, also if their names are equal. The scopes are those of both."""

    def token(**values: Any) -> AuthenticatedUser:
        return AuthenticatedUser(AccessToken(**{"token": "t", "client_id": "c", "scopes": ["a"], **values}))

    issuer = {"iss": "https://a.example.com"}
    users = {
        "user:alice": SimpleUser("alice"),
        "user:7": Numbered("alice"),
        "token:alice": token(subject="alice"),
        "token:alice@a.example.com": token(claims={"sub": "alice", **issuer}),
        "token-client:alice": token(client_id="alice"),
        "user:alice%40a.example.com": SimpleUser("alice@a.example.com"),
    }
    found = {name: identified(user, auth=AuthCredentials(["b"])) for name, user in users.items()}
    callers = [each for each in found.values() if each is not None]
    assert [each.name for each in callers] == list(found)
    assert len({each.identity for each in callers}) == len({each.owner for each in callers}) == len(users)
    assert callers[0].scopes == ["b"]
    assert callers[2].scopes == ["a", "b"]


@pytest.mark.parametrize("user", [BaseUser(), Nameless(), {"sub": "alice"}, object(), "", SimpleUser("")])
def test_a_user_without_a_readable_identity(user: object) -> None:
    """Such a user is authenticated, and nobody knows who it is."""
    scope: Scope = {"type": "http", "headers": [], "user": user}
    own = OwnAuthentication([Middleware(Guard)], [])
    own.identify(scope)
    record = record_of(scope)
    assert record.caller is None
    assert record.unknown.is_authenticated
    other: Scope = {"type": "http", "headers": [], "user": user}
    own.identify(other)
    assert record_of(other).unknown.owner != record.unknown.owner


def test_the_same_credentials_have_the_same_owner_at_all_replicas() -> None:
    """The owner follows from REQUEST_STATE_KEYS. It does not contain the token."""
    owners = []
    for keys, token in ((["k" * 32], b"a"), (["k" * 32], b"a"), (["k" * 32], b"b"), (["o" * 32], b"a")):
        scope: Scope = {"type": "http", "headers": [(b"authorization", b"Bearer " + token)]}
        OwnAuthentication([Middleware(Guard)], keys).identify(scope)
        owners.append(record_of(scope).unknown.owner)
    assert owners[0] == owners[1]
    assert len(set(owners)) == 3

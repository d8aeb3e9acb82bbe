"""Tokens of an authorization server."""

import asyncio
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc.util import urlsafe_b64encode

from anyreplica.features.keys.tokens import Tokens
from anyreplica.settings.rate import NO_RATE
from conftest import Server, StartServer, until
from tests.auth.issuer import AUDIENCE, NAME, Issuer
from tests.auth.refused import text_of_refusal
from tests.calls import get, legacy
from tests.starts import start

SETTINGS = {
    "AUTH_ENABLED": "true",
    "AUTH_JWT_ISSUER": NAME,
    "AUTH_JWT_AUDIENCE": AUDIENCE,
    "AUTH_JWT_SCOPES": "mcp",
    "PUBLIC_URL": "https://mcp.example.com",
    "MCP_COMPONENTS": "server,tests.packs.scoped",
}
METADATA = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """An issuer that serves its keys."""
    with Issuer().serving() as found:
        yield found


@pytest.fixture(scope="module")
def secured(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A replica that accepts the issuer's tokens."""
    with Server(tmp_path_factory.mktemp("jwt") / "log", AUTH_JWT_JWKS=issuer.url, **SETTINGS) as server:
        yield server


def bearer(url: str, token: str) -> Any:
    """Return the reply to a request with a token."""
    return legacy(url, "tools/list", Authorization=f"Bearer {token}")


def test_tokens_of_the_issuer_are_accepted(secured: Server, issuer: Issuer) -> None:
    """A replica accepts the issuer's tokens, and fetches the issuer's keys once for each algorithm."""
    assert [bearer(secured.url, issuer.token(sub=name)).status_code for name in ("ada", "bob", "eve")] == [200] * 3
    assert issuer.asked <= 2, "the replica fetches the keys once for each algorithm"


def encoded(part: Any) -> str:
    """Return the text of a part of a token."""
    return urlsafe_b64encode(json.dumps(part).encode()).decode()


def unsigned(issuer: Issuer) -> str:
    """Return a token of algorithm none (RFC 7519, section 6)."""
    return f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(issuer.claims())}."


def confused(issuer: Issuer) -> str:
    """Return a token that uses the issuer's public key as a shared secret (RFC 8725, section 2.1)."""
    key = issuer.keys[issuer.now]
    pem = key.public_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    said = f"{encoded({'alg': 'HS256', 'kid': issuer.now})}.{encoded(issuer.claims())}"
    return f"{said}.{urlsafe_b64encode(hmac.digest(pem, said.encode(), 'sha256')).decode()}"


def others(issuer: Issuer) -> str:
    """Return a token that another issuer signed under the name of this issuer's key."""
    other = Issuer()
    other.keys = {issuer.now: other.keys["first"]}
    other.now = issuer.now
    return other.token()


def changed(issuer: Issuer) -> str:
    """Return a token with claims that were changed after it was signed."""
    head, _, signature = issuer.token().split(".")
    return f"{head}.{encoded(issuer.claims(sub='root'))}.{signature}"


@pytest.mark.parametrize(
    "token",
    [
        unsigned,
        confused,
        others,
        changed,
        lambda issuer: issuer.token(aud="https://other.example.com"),
        lambda issuer: issuer.token(aud=None),
        lambda issuer: issuer.token(iss="https://evil.example.com"),
        lambda issuer: issuer.token(exp=int(time.time()) - 1),
        lambda issuer: issuer.token(exp=None),
        lambda issuer: issuer.token(nbf=int(time.time()) + 60),
        lambda issuer: issuer.token(sub="x" * 300),
        lambda issuer: issuer.token(sub="a\nb"),
        lambda issuer: issuer.token({"kid": "nobody's"}),
        lambda issuer: issuer.token({"crit": ["b64"], "b64": False}),
        lambda _: f"{urlsafe_b64encode(b'[' * 5000).decode()}.e30.e30",
        lambda _: "eyJhbGciOltdfQ.e30.e30",  # {"alg":[]}
        lambda _: "a.b.c",
        lambda _: "..",
        lambda _: "e30.e30.e30",
        lambda _: "x." * 20_000,
    ],
)
def test_any_other_token_is_refused(secured: Server, issuer: Issuer, token: Any) -> None:
    """Any other token gets 401. The challenge says where to get a valid token, but not why this one is refused."""
    reply = bearer(secured.url, token(issuer))
    assert reply.status_code == 401
    challenge = 'Bearer error="invalid_token", scope="mcp", '
    assert reply.headers["WWW-Authenticate"] == f'{challenge}resource_metadata="{METADATA}"'
    error = reply.json()["error"]
    assert error["message"] == "The bearer token is not valid."
    assert error["data"] == {"error": "invalid_token"}


@pytest.mark.anyio
async def test_a_token_without_the_scope_is_403(secured: Server, issuer: Issuer) -> None:
    """A token without the required scope gets 403 `insufficient_scope` (RFC 6750, 3.1), with that scope.

    The body is a JSON-RPC error, so the official Python client shows its text.
    """
    reply = bearer(secured.url, issuer.token(scope="reports:read"))
    assert reply.status_code == 403
    challenge = 'error="insufficient_scope", error_description="Required scope: mcp", scope="mcp"'
    assert challenge in reply.headers["WWW-Authenticate"]
    body, text = reply.json(), "The token does not have all required scopes: mcp."
    assert body["jsonrpc"] == "2.0"
    assert body["error"]["message"] == text
    assert body["error"]["data"] == {"error": "insufficient_scope"}
    token = issuer.token(scope="reports:read")
    assert await text_of_refusal(secured.url, Authorization=f"Bearer {token}") == text


def test_clients_learn_where_to_log_in(secured: Server) -> None:
    """A replica publishes the authorization server at the path of RFC 9728, section 3.1, and at the root."""
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        said = get(secured.url + path).json()
        assert said["resource"] == "https://mcp.example.com/mcp"
        assert said["authorization_servers"] == [NAME]
        assert said["scopes_supported"] == ["mcp"]


def test_tools_see_the_tokens_scopes(secured: Server, issuer: Issuer) -> None:
    """A caller sees only the tools that the token's scopes allow; `get_access_token` returns the claims."""

    def call(tool: str, **claims: Any) -> Any:
        headers = {"Authorization": f"Bearer {issuer.token(**claims)}"}
        return legacy(secured.url, "tools/call", {"name": tool, "arguments": {}}, **headers).json()["result"]

    assert call("read_report")["structuredContent"] == {"result": "for ada"}
    unknown = {"content": [{"text": "Unknown tool: 'read_report'", "type": "text"}]}
    assert call("read_report", scope="mcp") == call("nothing") | unknown


def test_a_new_key_of_the_issuers_is_found(start_server: StartServer) -> None:
    """A replica fetches the keys again when a token names an unknown key, at most every five seconds.

    While the issuer is unavailable, tokens of known keys stay valid.
    """
    with Issuer().serving() as issuer:
        server = start_server(AUTH_JWT_JWKS=issuer.url, AUTH_JWT_ALGORITHMS="RS256", **SETTINGS)
        assert bearer(server.url, issuer.token()).status_code == 200
        issuer.away = True
        assert bearer(server.url, issuer.token(sub="bob")).status_code == 200
        issuer.away = False
        issuer.rotate("second")
        token = issuer.token()
        until(lambda: bearer(server.url, token).status_code == 200, "the replica accepts a token with the new key")
        assert issuer.asked <= 4, "the replica fetches the keys at most every five seconds"


@pytest.mark.anyio
async def test_tokens_with_keys_from_a_file(tmp_path: Path) -> None:
    """A replica reads keys of the allowed algorithms from a file, and again when a token names an unknown key.

    A valid token is refused after its expiry.
    """
    issuer, file = Issuer(), tmp_path / "jwks.json"
    file.write_text(json.dumps(issuer.public))
    tokens = Tokens(NAME, [AUDIENCE], str(file), ["RS256", "ES256"], NO_RATE)
    for name, algorithm, known in (("one", "RS256", True), ("other", "ES256", True), ("third", "PS256", False)):
        issuer.rotate(name, algorithm)
        file.write_text(json.dumps(issuer.public))
        assert (await tokens.caller(issuer.token().encode()) is not None) == known
    issuer.now, issuer.algorithm = "one", "RS256"
    token = issuer.token(exp=int(time.time()) + 2).encode()
    assert await tokens.caller(token) is not None
    deadline = time.monotonic() + 10
    while await tokens.caller(token) is not None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await tokens.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"AUTH_JWT_AUDIENCE": ""}, "AUTH_JWT_AUDIENCE: required by AUTH_JWT_ISSUER="),
        ({"AUTH_JWT_JWKS": ""}, "AUTH_JWT_JWKS: required by AUTH_JWT_ISSUER="),
        ({"PUBLIC_URL": ""}, "PUBLIC_URL: required by AUTH_JWT_ISSUER="),
        ({"PUBLIC_URL": "mcp.example.com"}, "PUBLIC_URL=mcp.example.com: not a valid URL; write it like https://"),
        ({"AUTH_JWT_ALGORITHMS": "HS256"}, "AUTH_JWT_ALGORITHMS=HS256: 'HS256' is not one of the algorithms"),
        ({"AUTH_JWT_ALGORITHMS": "none"}, "'none' is not one of the algorithms ES256"),
        ({"AUTH_JWT_JWKS": "/nowhere"}, "AUTH_JWT_JWKS: /nowhere cannot be read: No such file"),
        ({"AUTH_JWT_JWKS": __file__}, "is not a JWKS"),
    ],
)
def test_a_missing_setting_stops_the_start(settings: dict[str, str], said: str) -> None:
    """`check` reports a missing or wrong setting in one line and exits with 3."""
    done = start("check", **{**SETTINGS, "AUTH_JWT_JWKS": "http://x/", **settings})
    assert done.returncode == 3
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1

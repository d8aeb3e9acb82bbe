"""Tests of assertions of clients (`private_key_jwt`): they are small, and no client takes the places of others."""

import json
import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fastmcp.server.auth import OAuthProxy, StaticTokenVerifier
from fastmcp.server.auth.cimd import CIMDDocument
from joserfc import jwk
from joserfc.jws import JWSRegistry
from joserfc.util import urlsafe_b64encode

from anyreplica.features.login.assertions import (
    LONGEST_ID,
    SKEW_SECONDS,
    AssertionId,
    UsedAssertions,
    assertion_id,
)
from anyreplica.features.login.documents import ClientDocuments
from anyreplica.features.login.limits import LoginRequest, answering
from anyreplica.mcp.compat import oauth_proxy
from tests.ratelimit.test_bucket import Clock

BAD, GOOD, THIRD = (f"https://{name}.example.com/client.json" for name in ("bad", "good", "third"))
ENDPOINT = "https://mcp.example.com/token"
KEY = jwk.generate_key("EC", "P-256", {"kid": "client", "alg": "ES256"})

Validate = Callable[[str, str], Awaitable[bool]]


def signed(client: str, number: Any, **changes: Any) -> str:
    """Return an assertion of a client. `number` is its `jti`."""
    now = int(time.time())
    claims = {"iss": client, "sub": client, "aud": ENDPOINT, "iat": now, "exp": now + 290, "jti": number, **changes}
    head = {"alg": "ES256", "kid": "client"}
    payload = json.dumps({name: value for name, value in claims.items() if value is not None})
    said = urlsafe_b64encode(json.dumps(head).encode()) + b"." + urlsafe_b64encode(payload.encode())
    signature = JWSRegistry(algorithms=["ES256"]).get_alg("ES256").sign(said, KEY)
    return (said + b"." + urlsafe_b64encode(signature)).decode()


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OAuthProxy:
    """A provider whose own memory has only ten places, instead of 10,000."""
    monkeypatch.setattr("fastmcp.settings.home", tmp_path)
    proxy = OAuthProxy(
        upstream_authorization_endpoint="http://127.0.0.1:9/authorize",
        upstream_token_endpoint="http://127.0.0.1:9/token",
        upstream_client_id="client",
        upstream_client_secret="the-secret-of-the-client",
        token_verifier=StaticTokenVerifier(tokens={}),
        base_url="https://mcp.example.com",
    )
    manager = oauth_proxy.assertions_of(proxy)
    assert manager is not None
    manager._assertion_validator._jti_cache_max_size = 10
    return proxy


def validating(proxy: OAuthProxy, used: UsedAssertions | None) -> Validate:
    """Return FastMCP's check of an assertion, with the limits of this package."""
    oauth_proxy.limit_clients(proxy, ClientDocuments(), assertion_id, None if used is None else used.claim)
    manager = oauth_proxy.assertions_of(proxy)
    assert manager is not None
    validator = manager._assertion_validator

    async def validate(client: str, assertion: str) -> bool:
        document = CIMDDocument.model_validate(
            {
                "client_id": client,
                "redirect_uris": ["http://localhost/cb"],
                "token_endpoint_auth_method": "private_key_jwt",
                "jwks": {"keys": [KEY.as_dict(private=False)]},
            }
        )
        try:
            return await validator.validate_assertion(assertion, client, ENDPOINT, document)
        finally:
            assert validator._jti_cache == {}

    return validate


@pytest.mark.anyio
async def test_a_client_does_not_take_the_places_of_others(proxy: OAuthProxy) -> None:
    """Without Redis, a client that has used its share gets 429, and the assertions of another client are valid."""
    validate = validating(proxy, UsedAssertions(most=30, share=15))
    for number in range(15):
        assert await validate(BAD, signed(BAD, f"id {number}"))
    request = LoginRequest()
    with answering(request), pytest.raises(ValueError, match="the limit is 15"):
        await validate(BAD, signed(BAD, "one more"))
    assert request.refusal is not None
    assert request.refusal.status == 429
    good = signed(GOOD, "id 1")
    assert await validate(GOOD, good), "another client may use the same id"
    with pytest.raises(ValueError, match="used before"):
        await validate(GOOD, good)


@pytest.mark.anyio
async def test_with_redis_a_replica_remembers_no_assertion(proxy: OAuthProxy) -> None:
    """With Redis, the used assertions are in Redis (`test_replay.py`), so FastMCP's own memory stays empty."""
    validate = validating(proxy, None)
    for number in range(25):
        assert await validate(BAD, signed(BAD, f"id {number}"))
    assert await validate(GOOD, signed(GOOD, "a"))


@pytest.mark.anyio
@pytest.mark.parametrize(
    "assertion",
    [
        signed(BAD, "j" * (LONGEST_ID + 1)),
        signed(BAD, "j" * 34_000),
        signed(BAD, ["a list"]),
        signed(BAD, 7),
        signed(BAD, ""),
        signed(BAD, None),
        signed(BAD, "a", exp=None),
        signed(BAD, "a", exp="soon"),
        signed(BAD, "a", exp=math.nan),
        signed(BAD, "a", exp=10**400),
        signed(BAD, "a", exp=[7]),
        f"a.{urlsafe_b64encode(b'[' * 10_000).decode()}.b",
        "a.W10.b",
        "a.é.b",
        "a.b",
        "",
    ],
)
@pytest.mark.parametrize("used", [True, False])
async def test_a_large_or_wrong_id_is_refused(proxy: OAuthProxy, assertion: str, used: bool) -> None:
    """The `jti` of an assertion is a text of at most 256 characters, and `exp` is a number."""
    validate = validating(proxy, UsedAssertions() if used else None)
    with pytest.raises(ValueError, match="assertion must"):
        await validate(BAD, assertion)
    assert await validate(BAD, signed(BAD, "j" * LONGEST_ID))


def test_used_assertions_are_remembered_until_they_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expired assertion leaves its place free. All clients together have a limit, too."""
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    used = UsedAssertions(most=3, share=2)
    used.claim(BAD, AssertionId("a", 1100.0))
    used.claim(BAD, AssertionId("b", 1200.0))
    used.claim(GOOD, AssertionId("a", 1300.0))
    request = LoginRequest()
    with answering(request), pytest.raises(ValueError, match="busy"):
        used.claim(THIRD, AssertionId("a", 1300.0))
    assert request.refusal is not None
    assert request.refusal.status == 503
    clock.now = 1100.0
    used.claim(THIRD, AssertionId("a", 1300.0))
    with pytest.raises(ValueError, match="used before"):
        used.claim(BAD, AssertionId("b", 1200.0))
    clock.now = 1300.0
    used.claim(GOOD, AssertionId("a", 1400.0))
    assert (len(used._used), len(used._by_time), used._shares.used) == (1, 1, 1)


def test_an_assertion_is_remembered_beyond_its_expiry() -> None:
    """FastMCP accepts an assertion for 30 s after its expiry, so a replica remembers it for longer."""
    assert assertion_id(signed(BAD, "a", exp=1000)) == AssertionId("a", 1000.0 + SKEW_SECONDS)

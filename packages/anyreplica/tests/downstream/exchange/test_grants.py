"""The requests for tokens: both grants, and both ways to send the client's secret."""

import pytest

from anyreplica.downstream import BadStatus, NoToken
from tests.downstream.exchange.authorization_server import own
from tests.downstream.exchange.conftest import Exchanging
from tests.downstream.exchange.served import Reply

pytestmark = pytest.mark.anyio

ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


async def test_token_exchange(exchanging: Exchanging) -> None:
    """A call carries a token of the user, which the client got for the user's own token (RFC 8693)."""
    exchanging.fields = {
        "audience": '["orders", "https://orders.example.com"]',
        "resource": '"https://orders.example.com/v1?a=b"',
        "scope": '"orders:read orders:write"',
    }
    assert await exchanging.get() == {"user": "ada"}
    assert exchanging.tokens.forms == [
        [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token_type", ACCESS_TOKEN),
            ("requested_token_type", ACCESS_TOKEN),
            ("audience", "orders"),
            ("audience", "https://orders.example.com"),
            ("resource", "https://orders.example.com/v1?a=b"),
            ("scope", "orders:read orders:write"),
        ]
    ]


async def test_only_the_required_fields(exchanging: Exchanging) -> None:
    """Without further fields in the file, the request names only the types of the tokens."""
    exchanging.fields = {"subject_token_type": '"urn:ietf:params:oauth:token-type:jwt"'}
    assert await exchanging.get() == {"user": "ada"}
    assert dict(exchanging.tokens.forms[0]) == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "requested_token_type": ACCESS_TOKEN,
    }


async def test_on_behalf_of(exchanging: Exchanging) -> None:
    """With `grant = "on-behalf-of"`, the client sends the request of Microsoft Entra ID."""
    exchanging.fields = {"grant": '"on-behalf-of"', "scope": '"api://orders/.default"'}
    exchanging.tokens.says = {"expires_in": "3599", "ext_expires_in": 3599}
    assert await exchanging.get() == {"user": "ada"}
    assert exchanging.tokens.forms == [
        [
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("requested_token_use", "on_behalf_of"),
            ("scope", "api://orders/.default"),
        ]
    ]
    assert len(exchanging.caller_tokens.cache) == 1


async def test_the_secret_in_the_body(exchanging: Exchanging) -> None:
    """With `client_secret_post`, the id and the secret are in the body and not in a header."""
    exchanging.tokens.post = True
    exchanging.fields = {"client_auth_method": '"client_secret_post"'}
    assert await exchanging.get() == {"user": "ada"}


async def test_the_callers_own_token_stays_here(exchanging: Exchanging) -> None:
    """The API gets only exchanged tokens: neither the caller's token nor the client's secret."""
    exchanging.user = own("ada")
    async with exchanging.opened():
        await exchanging.client.get(exchanging.api.url, params={"a": 1}, headers={"X-B": "c"})
        await exchanging.client.post(exchanging.api.url, json={"a": 1})
    assert exchanging.api.bodies == [b"", b'{"a":1}']
    assert set(exchanging.api.authorizations) == {"Bearer api-ada-0"}
    for part in exchanging.user.split("."):
        assert part not in "".join(exchanging.api.seen)


async def test_a_redirect_gets_no_token(exchanging: Exchanging) -> None:
    """The client follows neither a redirect of the API nor one of the token endpoint."""
    elsewhere = Reply(307, b"", {"Location": exchanging.api.url.replace("127.0.0.1", "localhost")})
    exchanging.api.instead = lambda: elsewhere
    with pytest.raises(BadStatus) as refused:
        await exchanging.get()
    assert str(refused.value) == f"{exchanging.api.host} answered 307 Temporary Redirect"
    assert len(exchanging.api.seen) == 1
    exchanging.tokens.instead = lambda: elsewhere
    with pytest.raises(NoToken) as failed:
        await exchanging.get()
    expected = f"No token for {exchanging.api.host}: {exchanging.tokens.host} answered 307 Temporary Redirect"
    assert str(failed.value) == expected
    assert len(exchanging.api.seen) == 1


async def test_another_host_gets_no_token(exchanging: Exchanging) -> None:
    """Only the hosts of the file get a token. A name with another spelling is another host."""
    exchanging.api.instead = Reply
    async with exchanging.opened():
        for host in (exchanging.api.host.replace("127.0.0.1", "localhost"), exchanging.tokens.host):
            exchanging.tokens.instead = Reply
            await exchanging.client.get(f"http://{host}/me")
    assert exchanging.api.authorizations == [None]
    assert exchanging.caller_tokens.outcomes.total() == 0

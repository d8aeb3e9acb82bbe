"""The requests for tokens: both grants, and both ways to send the client's secret."""

import pytest

from anyreplica.downstream import BadStatus, NoToken
from tests.downstream.exchange.authorization_server import own
from tests.downstream.exchange.conftest import Exchanging
from tests.downstream.exchange.served import Reply

pytestmark = pytest.mark.anyio

OAUTH = "urn:ietf:params:oauth"
ACCESS_TOKEN, JWT = f"{OAUTH}:token-type:access_token", f"{OAUTH}:token-type:jwt"
EXCHANGE = {
    "grant_type": f"{OAUTH}:grant-type:token-exchange",
    "subject_token_type": ACCESS_TOKEN,
    "requested_token_type": ACCESS_TOKEN,
}


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        pytest.param(
            {"audience": '["orders", "https://a.example.com"]', "resource": '"https://a/v1?a=b"', "scope": '"a b"'},
            [
                *EXCHANGE.items(),
                ("audience", "orders"),
                ("audience", "https://a.example.com"),
                ("resource", "https://a/v1?a=b"),
                ("scope", "a b"),
            ],
            id="token exchange (RFC 8693)",
        ),
        pytest.param(
            {"subject_token_type": f'"{JWT}"'}, [*{**EXCHANGE, "subject_token_type": JWT}.items()], id="another type"
        ),
        pytest.param(
            {"grant": '"on-behalf-of"', "scope": '"api://orders/.default"'},
            [
                ("grant_type", f"{OAUTH}:grant-type:jwt-bearer"),
                ("requested_token_use", "on_behalf_of"),
                ("scope", "api://orders/.default"),
            ],
            id="on behalf of (Microsoft Entra ID)",
        ),
        pytest.param({"client_auth_method": '"client_secret_post"'}, [*EXCHANGE.items()], id="the secret in the body"),
    ],
)
async def test_a_grant(exchanging: Exchanging, fields: dict[str, str], form: list[tuple[str, str]]) -> None:
    """A call has a token of the user. The client got it for the user's own token, with exactly these fields."""
    exchanging.fields, exchanging.tokens.post = fields, "client_auth_method" in fields
    exchanging.tokens.says = {"expires_in": "3599", "ext_expires_in": 3599}
    assert await exchanging.get() == {"user": "ada"}
    assert exchanging.tokens.forms == [form]
    assert len(exchanging.caller_tokens.cache) == 1


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

"""A host that refuses an exchanged token with 401."""

import asyncio

import pytest

from anyreplica.downstream import BadStatus, NoToken
from tests.downstream.exchange.conftest import Exchanging
from tests.downstream.exchange.served import Reply

pytestmark = pytest.mark.anyio


async def test_a_revoked_token_is_replaced(exchanging: Exchanging) -> None:
    """After a 401, the client drops the token, gets a new one, and repeats the call with its body."""
    async with exchanging.opened():
        await exchanging.client.get(exchanging.api.url)
        exchanging.tokens.revoked.add("api-ada-0")
        for number in range(2):
            reply = await exchanging.client.post(exchanging.api.url, json={"number": number})
            assert reply.json() == {"user": "ada"}
    assert exchanging.api.bodies == [b"", b'{"number":0}', b'{"number":0}', b'{"number":1}']
    tokens = ["api-ada-0", "api-ada-0", "api-ada-1", "api-ada-1"]
    assert exchanging.api.authorizations == [f"Bearer {token}" for token in tokens]


async def test_many_calls_with_a_revoked_token(exchanging: Exchanging) -> None:
    """If the token of many concurrent calls is revoked, one new token replaces it."""
    async with exchanging.opened():
        await exchanging.client.get(exchanging.api.url)
        exchanging.tokens.revoked.add("api-ada-0")
        await asyncio.gather(*(exchanging.client.get(exchanging.api.url) for _ in range(20)))
    assert exchanging.api.users == ["ada"] * 21
    assert exchanging.tokens.asked == 2


async def test_a_host_that_refuses_every_token(exchanging: Exchanging) -> None:
    """The client repeats a call once. Then the tool gets the 401."""
    exchanging.api.instead = lambda: Reply(401)
    with pytest.raises(BadStatus, match="answered 401 Unauthorized") as error:
        await exchanging.get()
    assert error.value.response.status_code == 401
    assert (len(exchanging.api.seen), exchanging.tokens.asked) == (2, 2)


@pytest.mark.parametrize("status", [400, 403, 404])
async def test_other_statuses_are_not_repeated(exchanging: Exchanging, status: int) -> None:
    """After another status, the client keeps the token and does not repeat the call."""
    exchanging.api.instead = lambda: Reply(status)
    with pytest.raises(BadStatus, match=f"answered {status}"):
        await exchanging.get()
    assert (len(exchanging.api.seen), len(exchanging.caller_tokens.cache)) == (1, 1)


async def test_the_same_token_again(exchanging: Exchanging) -> None:
    """If the authorization server gives the refused token again, the client does not repeat the call."""
    exchanging.tokens.says = {"access_token": "always-the-same"}
    with pytest.raises(BadStatus, match="answered 401"):
        await exchanging.get()
    assert (len(exchanging.api.seen), exchanging.tokens.asked) == (1, 2)


async def test_a_user_who_lost_access(exchanging: Exchanging) -> None:
    """If there is no new token after a 401, the error says so, and the next call asks again."""
    async with exchanging.opened():
        await exchanging.client.get(exchanging.api.url)
        exchanging.tokens.revoked.add("api-ada-0")
        exchanging.tokens.instead = lambda: Reply(400, b'{"error": "invalid_grant"}')
        for _ in range(2):
            with pytest.raises(NoToken, match=r"answered 400 Bad Request \(invalid_grant\)"):
                await exchanging.client.get(exchanging.api.url)
    assert exchanging.tokens.asked == 3
    assert len(exchanging.api.seen) == 2
    assert exchanging.caller_tokens.outcomes[exchanging.api.host, "refused"] == 2

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


@pytest.mark.parametrize(("status", "times"), [(401, 2), (400, 1), (403, 1), (404, 1)])
async def test_only_a_401_is_repeated_once(exchanging: Exchanging, status: int, times: int) -> None:
    """After a 401, the client repeats a call once, with a new token. It repeats no call after another status."""
    exchanging.api.instead = lambda: Reply(status)
    with pytest.raises(BadStatus, match=f"answered {status}") as error:
        await exchanging.get()
    assert error.value.response.status_code == status
    assert (len(exchanging.api.seen), exchanging.tokens.asked) == (times, times)
    assert len(exchanging.caller_tokens.cache) == 1, "the client keeps the last token"


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

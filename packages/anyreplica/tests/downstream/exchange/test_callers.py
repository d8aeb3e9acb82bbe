"""Calls that cannot or must not have an exchanged token."""

import httpx2
import pytest

from anyreplica.downstream import NoToken, Unusable
from anyreplica.features.downstream.exchange.entry import read
from tests.downstream.exchange.conftest import Exchanging
from tests.downstream.exchange.served import Reply

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("user", [None, ""])
async def test_a_caller_without_a_token(exchanging: Exchanging, user: str | None) -> None:
    """A caller with an API key, and a job, get an error. Neither host gets a request."""
    exchanging.user = user
    with pytest.raises(NoToken, match=r"was not called: the caller has no token that can be exchanged"):
        await exchanging.get()
    assert (exchanging.api.seen, exchanging.tokens.asked) == ([], 0)
    assert exchanging.caller_tokens.outcomes == {(exchanging.api.host, "no_token"): 1}


async def test_credentials_of_the_tool(exchanging: Exchanging) -> None:
    """If a tool passes other credentials or `exchange=False`, the call has those or none, and there is no exchange."""
    exchanging.api.instead = Reply
    async with exchanging.opened():
        get, url = exchanging.client.get, exchanging.api.url
        await get(url, headers={"authorization": "Bearer service"})
        await get(url, auth=httpx2.BasicAuth("a", "b"))
        await get(url.replace("http://", "http://a:b@"))
        assert (await get(url, exchange=False)).json() == {}
    assert exchanging.api.authorizations == ["Bearer service", "Basic YTpi", "Basic YTpi", None]
    assert exchanging.tokens.asked == 0


@pytest.mark.parametrize("options", [{"exchange": False}, {"exchange": True}, {}])
@pytest.mark.parametrize("header", ["Authorization", "X-Forwarded-Access-Token", "Cookie"])
async def test_the_callers_own_token_in_a_header(exchanging: Exchanging, header: str, options: dict[str, bool]) -> None:
    """A tool cannot pass the caller's own token on in a header."""
    with pytest.raises(Unusable, match="a header contains the caller's own token"):
        await exchanging.get(headers={header: f"Bearer {exchanging.user}"}, **options)
    assert exchanging.api.seen == []


async def test_a_call_that_needs_an_exchange(exchanging: Exchanging) -> None:
    """With `exchange=True`, a call fails if the host has no token exchange, or if the tool passes credentials."""
    async with exchanging.opened():
        host = exchanging.api.host.replace("127.0.0.1", "localhost")
        with pytest.raises(Unusable, match=r"it has no token exchange \(DOWNSTREAM_TOKENS_FILE\)"):
            await exchanging.client.get(f"http://{host}/me", exchange=True)
        with pytest.raises(Unusable, match="the tool passes other credentials"):
            await exchanging.client.get(exchanging.api.url, headers={"Authorization": "Bearer a"}, exchange=True)
        assert (await exchanging.client.get(exchanging.api.url, exchange=True)).json() == {"user": "ada"}
    assert len(exchanging.api.seen) == 1


async def test_plain_http(exchanging: Exchanging) -> None:
    """No token goes over plain HTTP to another machine, unless the operator allows it for this host."""
    path = exchanging.folder / "another.toml"
    path.write_text(exchanging.file().read_text().replace(exchanging.api.host, "API.invalid"))
    async with exchanging.opened():
        exchanging.caller_tokens.configure(path, lambda: exchanging.user)
        with pytest.raises(Unusable, match=r"api\.invalid was not called: its token must not go over plain HTTP"):
            await exchanging.client.get("http://api.invalid/me")
    assert exchanging.tokens.asked == 0
    path.write_text(path.read_text() + "\nallow_http = true")
    assert read(path)["api.invalid"].may_carry(httpx2.URL("http://api.invalid/me"))

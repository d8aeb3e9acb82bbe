"""The tokens in memory: how long and how many."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyreplica.downstream import NoToken
from anyreplica.features.downstream.exchange.caller_tokens import ExchangedToken, TokenCache, _cache_seconds
from tests.downstream.exchange.authorization_server import own
from tests.downstream.exchange.conftest import Exchanging
from tests.ratelimit.test_bucket import Clock

pytestmark = pytest.mark.anyio


async def test_a_token_is_kept(exchanging: Exchanging) -> None:
    """Later calls of the same caller use the same token. Another token of the same user is another caller."""
    tokens = [own("ada"), own("bob"), own("ada", jti="another")]
    async with exchanging.opened():
        for exchanging.user in tokens * 3:
            await exchanging.client.get(exchanging.api.url)
    assert exchanging.api.users == ["ada", "bob", "ada"] * 3
    assert exchanging.tokens.asked == 3
    assert exchanging.caller_tokens.outcomes == {(exchanging.api.host, "ok"): 3}
    assert len(exchanging.caller_tokens.cache) == 3


async def test_concurrent_calls_share_an_exchange(exchanging: Exchanging) -> None:
    """Twenty concurrent calls of one user make one request to the token endpoint."""
    async with exchanging.opened():
        await asyncio.gather(*(exchanging.client.get(exchanging.api.url) for _ in range(20)))
    assert exchanging.api.users == ["ada"] * 20
    assert exchanging.tokens.asked == 1


async def test_a_call_that_goes_away_ends_no_exchange(exchanging: Exchanging) -> None:
    """If the call that started an exchange is cancelled, the other calls still get the token."""
    async with exchanging.opened():
        first = asyncio.create_task(exchanging.client.get(exchanging.api.url))
        others = [asyncio.create_task(exchanging.client.get(exchanging.api.url)) for _ in range(3)]
        await asyncio.sleep(0)
        first.cancel()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
    assert exchanging.api.users == ["ada"] * 3
    assert exchanging.tokens.asked == 1


def made(text: str, seconds: float = 300) -> Any:
    """Return a function that exchanges a token without a server."""

    async def exchange() -> ExchangedToken:
        await asyncio.sleep(0)
        return ExchangedToken(text, seconds)

    return exchange


async def test_a_token_is_renewed_before_it_expires() -> None:
    """A token is used until its time ends. A token without time serves only the calls that wait for it."""
    clock = Clock()
    cache = TokenCache(10, clock)
    key = "api", b"ada"
    assert await cache.get(key, made("1"), 1) == "1"
    clock.now += 299
    assert await cache.get(key, made("2"), 1) == "1"
    clock.now += 1
    assert len(cache) == 0
    assert await cache.get(key, made("2", 0), 1) == "2"
    assert len(cache) == 0
    assert await cache.get(key, made("3"), 1) == "3"


async def test_the_number_of_tokens_is_limited() -> None:
    """At the limit, the token that was used longest ago is dropped."""
    cache = TokenCache(3)
    for name in (b"a", b"b", b"c", b"a", b"d", b"e"):
        assert await cache.get(("api", name), made(name.decode()), 1) == name.decode()
    assert len(cache) == 3
    assert [await cache.get(("api", name), made("new"), 1) for name in (b"a", b"d", b"e")] == ["a", "d", "e"]
    assert await cache.get(("api", b"b"), made("new"), 1) == "new"


async def test_a_dropped_token() -> None:
    """Only the token that a host refused is dropped, and not the token that has replaced it."""
    cache, key = TokenCache(), ("api", b"ada")
    cache.drop(key, "1")
    await cache.get(key, made("1"), 1)
    cache.drop(key, "another")
    assert await cache.get(key, made("2"), 1) == "1"
    cache.drop(key, "1")
    assert await cache.get(key, made("2"), 1) == "2"


async def test_a_failed_exchange_is_not_kept() -> None:
    """All waiting calls get the error of a failed exchange. The next call starts a new exchange."""
    before, go_on = asyncio.all_tasks(), asyncio.Event()

    async def failing() -> ExchangedToken:
        await go_on.wait()
        raise NoToken("failed")

    cache, key = TokenCache(), ("api", b"ada")
    waiting = [asyncio.create_task(cache.get(key, failing, 1)) for _ in range(5)]
    await asyncio.sleep(0)  # each of them begins to wait
    go_on.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(error) for error in results] == ["failed"] * 5
    assert len({id(error) for error in results}) == 5
    assert await cache.get(key, made("1"), 1) == "1"
    go_on.clear()
    with pytest.raises(TimeoutError):
        await cache.get(("api", b"bob"), failing, 0)
    go_on.set()
    while asyncio.all_tasks() > before:  # noqa: ASYNC110  # the exchange fails without a waiting call, and logs nothing
        await asyncio.sleep(0)


async def test_a_closed_client() -> None:
    """If the client is closed during an exchange, the waiting calls get an error. The next call works."""
    cache, key = TokenCache(), ("api", b"ada")
    waiting = asyncio.create_task(cache.get(key, made("1"), 1))
    await asyncio.sleep(0)
    cache.stop()
    with pytest.raises(NoToken, match="the client was closed"):
        await waiting
    assert await cache.get(key, made("2"), 1) == "2"


USERS, HOSTS, KINDS = map(st.sampled_from, (["ada", "bob", "eve"], ["api-1", "api-2"], ["call", "drop", "wait"]))


@given(st.lists(st.tuples(USERS, HOSTS, KINDS, st.floats(0, 400)), max_size=40), st.integers(1, 4))
async def test_two_users_never_share_a_token(steps: list[tuple[str, str, str, float]], most: int) -> None:
    """Whatever the calls do, and in whatever order, a call gets only a token of its own user and host, in its time."""
    clock = Clock()
    cache = TokenCache(most, clock)
    ends: dict[str, float] = {}

    async def call(user: str, host: str, seconds: float, number: int) -> None:
        async def exchange() -> ExchangedToken:
            await asyncio.sleep(0)
            text = f"{user} {host} {number}"
            ends[text] = clock.now + seconds
            return ExchangedToken(text, seconds)

        began = clock.now
        text = await cache.get((host, user.encode()), exchange, 1)
        assert text.split()[:2] == [user, host]
        assert began <= ends[text]
        if number % 3 == 0:
            cache.drop((host, user.encode()), text)

    running = []
    for number, (user, host, step, seconds) in enumerate(steps):
        if step == "wait":
            clock.now += seconds
            await asyncio.sleep(0)
        elif step == "drop":
            cache.drop((host, user.encode()), f"{user} {host} {number - 1}")
        else:
            running.append(asyncio.create_task(call(user, host, seconds, number)))
        assert len(cache) <= most
    await asyncio.gather(*running)


@given(st.none() | st.integers() | st.floats() | st.text(max_size=30) | st.booleans() | st.lists(st.integers()))
def test_no_expires_in_keeps_a_token_too_long(expires_in: object) -> None:
    """A token is never kept for longer than it is valid, nor for longer than an hour, whatever the server says."""
    seconds = _cache_seconds(expires_in)
    assert 0 <= seconds <= 3600
    if isinstance(expires_in, int | float) and not isinstance(expires_in, bool) and expires_in > 0:
        assert seconds <= expires_in  # equal only for numbers that are too small for nine tenths of them


@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [
        (None, 60),
        (300, 270),
        ("300", 270),
        (10, 9),
        (1e-3, 9e-4),
        (86_400, 3570),
        (float("inf"), 3570),
        (10**400, 3570),
        *((wrong, 0) for wrong in (0, -1, "-1", "soon", "9" * 30, float("nan"), True, [300])),
    ],
)
def test_how_long_a_token_is_kept(expires_in: object, seconds: float) -> None:
    """A token is kept until shortly before it expires. A value that is no number of seconds keeps it from no call."""
    assert _cache_seconds(expires_in) == pytest.approx(seconds)

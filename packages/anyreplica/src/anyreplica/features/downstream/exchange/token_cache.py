"""The exchanged tokens in this process's memory, and the exchanges that run now."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from cachetools import TLRUCache

from anyreplica.features.downstream.errors import NoToken
from anyreplica.features.downstream.exchange.token_response import ExchangedToken

MOST_TOKENS = 2048
"""Maximum number of tokens. At the limit, the token that was used longest ago is dropped."""

Key = tuple[str, bytes]
"""The host of an API, and the SHA-256 of a caller's token."""


@dataclass(frozen=True, slots=True)
class _CachedToken:
    text: str = field(repr=False)
    ends: float


class TokenCache:
    """The tokens, by host and caller. `clock` returns seconds."""

    def __init__(self, most: int = MOST_TOKENS, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: TLRUCache[Key, _CachedToken] = TLRUCache(most, lambda _, cached, __: cached.ends, timer=clock)
        self._running: dict[Key, asyncio.Task[ExchangedToken | NoToken]] = {}

    def __len__(self) -> int:
        """Return the number of tokens."""
        self._tokens.expire()
        return len(self._tokens)

    async def get(self, key: Key, exchange: Callable[[], Awaitable[ExchangedToken]], seconds: float) -> str:
        """Return the token of a key. If there is none, wait up to `seconds` for its exchange.

        Concurrent calls with the same key share one exchange. It continues when the call that started it ends.

        Raises:
            NoToken: the exchange failed.
            TimeoutError: the exchange takes longer than `seconds`.
        """
        cached = self._tokens.get(key)
        if cached is not None:
            return cached.text
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._exchanged(key, exchange))
            self._running[key] = task
            task.add_done_callback(lambda ended: self._ended(key, ended))
        done, _ = await asyncio.wait({task}, timeout=max(0.0, seconds))
        if not done:
            raise TimeoutError
        if task.cancelled():
            raise NoToken(f"No token for {key[0]}: the client was closed")
        result = task.result()
        if isinstance(result, NoToken):
            raise NoToken(str(result))  # one object must not be raised in several calls
        return result.text

    def drop(self, key: Key, token: str) -> None:
        """Drop a token, unless another token has replaced it already."""
        cached = self._tokens.get(key)
        if cached is not None and cached.text == token:
            del self._tokens[key]

    def stop(self) -> None:
        """Cancel the exchanges that run now."""
        for task in list(self._running.values()):
            task.cancel()

    async def _exchanged(self, key: Key, exchange: Callable[[], Awaitable[ExchangedToken]]) -> ExchangedToken | NoToken:
        try:
            token = await exchange()
        except NoToken as error:
            return error
        if token.seconds > 0:
            self._tokens[key] = _CachedToken(token.text, self._clock() + token.seconds)
        return token

    def _ended(self, key: Key, task: asyncio.Task[ExchangedToken | NoToken]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # a task without waiting calls would otherwise log its exception

"""The tokens with which a process calls APIs in the name of its callers."""

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import httpx2

from anyreplica.components import deadline
from anyreplica.features.downstream.errors import BadStatus, DownstreamError, NoToken
from anyreplica.features.downstream.exchange.entry import TokenExchange
from anyreplica.features.downstream.exchange.entry_file import read
from anyreplica.features.downstream.exchange.token_cache import TokenCache
from anyreplica.features.downstream.exchange.token_request import token_request
from anyreplica.features.downstream.exchange.token_response import (
    MOST_TOKEN_BYTES,
    ExchangedToken,
    error_code,
    exchanged_token,
)

ExchangeOutcome = Literal["ok", "refused", "error", "no_token"]
"""How an exchange ended.

- ok: with a token.
- refused: the authorization server answered with a status of 4xx.
- error: there was no answer, or an answer that cannot be used.
- no_token: the caller has no token, so there was no exchange.
"""


class CallerTokens:
    """The exchanged tokens of a process. `post` is the method of a `Downstream` that calls the token endpoints."""

    def __init__(self, post: Callable[..., Awaitable[httpx2.Response]]) -> None:
        self._post = post
        self._exchanges: dict[str, TokenExchange] = {}
        self._caller_token: Callable[[], str | None] | None = None
        self.cache = TokenCache()
        self.outcomes: Counter[tuple[str, ExchangeOutcome]] = Counter()
        """Number of exchanges, by host of the API and outcome."""

    def configure(self, file: Path | None, caller_token: Callable[[], str | None] | None = None) -> None:
        """Drop all tokens, and use this file. `caller_token` returns the token of the current caller.

        Raises:
            StartupError: the file is not valid.
        """
        self._exchanges = read(file) if file is not None else {}
        self._caller_token = caller_token
        self.cache = TokenCache()
        self.outcomes.clear()

    def exchange_for(self, host: str) -> TokenExchange | None:
        """Return the exchange for the calls of a host, or None if the file does not name the host."""
        return self._exchanges.get(host)

    def own(self) -> str:
        """Return the token of the current caller. Empty: the caller has none."""
        return (self._caller_token() if self._caller_token is not None else None) or ""

    async def token(self, exchange: TokenExchange, own: str, seconds: float) -> str:
        """Return a token for the host of an exchange, in the name of the holder of the token `own`.

        Raises:
            NoToken: the caller has no token, or the exchange failed or takes longer than `seconds`.
        """
        host = exchange.host
        if not own:
            self.outcomes[host, "no_token"] += 1
            reason = "API keys, signatures and jobs have none"
            raise NoToken(f"{host} was not called: the caller has no token that can be exchanged ({reason})")
        try:
            return await self.cache.get(_key(host, own), lambda: self._exchanged(exchange, own), seconds)
        except TimeoutError:
            endpoint = _host_of(exchange)
            took = f"{endpoint} did not answer within {max(0.0, round(seconds, 1)):g} s"
            raise NoToken(f"No token for {host}: {took}") from None

    def drop(self, exchange: TokenExchange, own: str, token: str) -> None:
        """Drop a token that the host did not accept."""
        self.cache.drop(_key(exchange.host, own), token)

    async def _exchanged(self, exchange: TokenExchange, own: str) -> ExchangedToken:
        deadline.until(None)  # the exchange also serves calls that have more time than the call that starts it
        outcome: ExchangeOutcome = "error"
        try:
            token = await self._ask(exchange, own)
            outcome = "ok"
        except DownstreamError as error:
            reason = str(error)
            if isinstance(error, BadStatus):
                code = error_code(error.response)
                reason += f" ({code})" if code else ""
                outcome = "refused" if 400 <= error.response.status_code < 500 else "error"
            raise NoToken(f"No token for {exchange.host}: {reason}") from None
        finally:
            self.outcomes[exchange.host, outcome] += 1
        return token

    async def _ask(self, exchange: TokenExchange, own: str) -> ExchangedToken:
        headers, body = token_request(exchange, own)
        # A second exchange does no harm, so the client may retry it.
        response = await self._post(
            exchange.entry.token_url, headers=headers, content=body, max_bytes=MOST_TOKEN_BYTES, idempotent=True
        )
        return exchanged_token(response, _host_of(exchange), own)


def _key(host: str, own: str) -> tuple[str, bytes]:
    return host, hashlib.sha256(own.encode()).digest()


def _host_of(exchange: TokenExchange) -> str:
    """Return the host of the token endpoint."""
    return httpx2.URL(exchange.entry.token_url).netloc.decode("ascii")

"""The tokens with which a process calls APIs in the name of its callers."""

import asyncio
import base64
import hashlib
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote_plus, urlencode

import httpx2
from cachetools import TLRUCache
from pydantic_core import from_json

from anyreplica.components import call_limits
from anyreplica.features.downstream.errors import BadStatus, DownstreamError, NoToken, Unusable
from anyreplica.features.downstream.exchange.entry import ExchangeEntry, TokenExchange, read

MOST_TOKEN_BYTES = 64 * 1024
"""Maximum size of the response, in bytes."""

_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}")
"""Pattern of a token that an Authorization header can carry."""

_UNSTATED_SECONDS = 60.0
"""Validity of a token whose response does not state one."""

_MOST_SECONDS = 3600.0
"""Maximum time for which a token is kept. So a token that is valid for days is renewed, and a user who lost rights
loses them here, too."""

_MARGIN_SECONDS = 30.0

_MARGIN_SHARE = 0.1

_CODES = frozenset(
    {
        # RFC 6749, section 5.2
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        # RFC 8693, section 2.2.2
        "invalid_target",
        # OpenID Connect Core, section 3.1.2.6: the user must log in again, or must agree
        "interaction_required",
    }
)

_TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105

_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"

MOST_TOKENS = 2048
"""Maximum number of tokens. At the limit, the token that was used longest ago is dropped."""

Key = tuple[str, bytes]
"""The host of an API, and the SHA-256 of a caller's token."""

ExchangeOutcome = Literal["ok", "refused", "error", "no_token"]
"""How an exchange ended.

- ok: with a token.
- refused: the authorization server answered with a status of 4xx.
- error: there was no answer, or an answer that cannot be used.
- no_token: the caller has no token, so there was no exchange.
"""


@dataclass(frozen=True, slots=True)
class ExchangedToken:
    """A token for an API."""

    text: str = field(repr=False)
    seconds: float
    """Time for which the token may be kept. 0: only the calls that wait for it may use it."""


def exchanged_token(response: httpx2.Response, host: str, subject: str) -> ExchangedToken:
    """Return the token of a response with a 2xx status.

    Args:
        response: the response.
        host: host of the token endpoint.
        subject: the caller's token.

    Raises:
        Unusable: the response contains no token that the client can use.
    """
    answer = _object(response)
    if answer is None:
        raise Unusable(f"{host} sent no JSON object")
    token, kind = answer.get("access_token"), answer.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise Unusable(f"{host} sent no token of the type Bearer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise Unusable(f"{host} sent no token that a header can carry")
    if token == subject:
        raise Unusable(f"{host} sent the caller's own token, which no API may get")
    return ExchangedToken(token, _cache_seconds(answer.get("expires_in")))


def error_code(response: httpx2.Response) -> str:
    """Return the error code of a response, or an empty text if it has none that is known."""
    code = (_object(response) or {}).get("error")
    return code if isinstance(code, str) and code in _CODES else ""


def _object(response: httpx2.Response) -> dict[str, Any] | None:
    try:
        answer = from_json(response.content, allow_inf_nan=False)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _cache_seconds(expires_in: object) -> float:
    """Return how long a token is kept, in seconds: until 30 s before it expires, or nine tenths of its lifetime."""
    if expires_in is None:
        return _UNSTATED_SECONDS
    if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdecimal() and len(expires_in) < 20:
        expires_in = int(expires_in)  # some servers send the number as text
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float):
        return 0.0
    seconds = float(max(0, min(expires_in, _MOST_SECONDS)))
    return seconds - min(_MARGIN_SECONDS, seconds * _MARGIN_SHARE)


def token_request(exchange: TokenExchange, token: str) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of the request that exchanges a caller's token."""
    entry, secret = exchange.entry, exchange.secret.get_secret_value()
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    fields = _on_behalf_of(token) if entry.grant == "on-behalf-of" else _token_exchange(entry, token)
    if entry.scope:
        fields.append(("scope", entry.scope))
    if entry.client_auth_method == "client_secret_post":
        fields += [("client_id", entry.client_id), ("client_secret", secret)]
    else:
        # The two parts are form-encoded before they are joined (RFC 6749, section 2.3.1).
        pair = f"{quote_plus(entry.client_id)}:{quote_plus(secret)}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return headers, urlencode(fields).encode()


def _token_exchange(entry: ExchangeEntry, token: str) -> list[tuple[str, str]]:
    return [
        ("grant_type", _TOKEN_EXCHANGE),
        ("subject_token", token),
        ("subject_token_type", entry.subject_token_type),
        ("requested_token_type", entry.requested_token_type),
        *(("audience", each) for each in entry.audience),
        *(("resource", each) for each in entry.resource),
    ]


def _on_behalf_of(token: str) -> list[tuple[str, str]]:
    return [("grant_type", _JWT_BEARER), ("assertion", token), ("requested_token_use", "on_behalf_of")]


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
        # The exchange also serves calls that have more time than the call that starts it.
        call_limits.set_deadline(None)
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

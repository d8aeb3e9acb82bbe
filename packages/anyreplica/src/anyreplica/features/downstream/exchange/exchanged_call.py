"""A call of an API with an exchanged token."""

import asyncio
from dataclasses import dataclass

import httpx2

from anyreplica.features.downstream.call import ApiCall
from anyreplica.features.downstream.errors import BadStatus, Unusable
from anyreplica.features.downstream.exchange.caller_tokens import CallerTokens
from anyreplica.features.downstream.exchange.entry import TokenExchange

_UNAUTHORIZED = 401


@dataclass
class ExchangedCall:
    """A call in the name of the holder of the token `own`."""

    tokens: CallerTokens
    exchange: TokenExchange
    own: str
    call: ApiCall

    async def run(self, seconds: float) -> httpx2.Response:
        """Make the call within `seconds`. If the host refuses the token, repeat the call once with a new token.

        Raises:
            NoToken: there is no token for the call.
            DownstreamError: there is no response with a 2xx status.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        token = await self._authorize(seconds)
        try:
            return await self.call.run(end - loop.time())
        except BadStatus as error:
            resendable = isinstance(self.call.request.stream, httpx2.ByteStream)
            if error.response.status_code != _UNAUTHORIZED or not resendable:
                raise
            self.tokens.drop(self.exchange, self.own, token)
            if await self._authorize(end - loop.time()) == token:
                raise  # the authorization server gave the same token again
        return await self.call.run(end - loop.time())

    async def _authorize(self, seconds: float) -> str:
        token = await self.tokens.token(self.exchange, self.own, seconds)
        self.call.request.headers["Authorization"] = f"Bearer {token}"
        return token


def exchanged_call(
    tokens: CallerTokens, call: ApiCall, exchange: TokenExchange | None, wanted: bool | None
) -> ExchangedCall | None:
    """Return the call with an exchanged token, or None if the call is made as it is.

    Args:
        tokens: the exchanged tokens of this process.
        call: the call.
        exchange: the exchange of the call's host, if the operator configured one.
        wanted: True: the call needs an exchanged token; False: it has none; None: it has one if the host has an
            exchange and the tool passes no credentials itself.

    Raises:
        Unusable: the call needs an exchanged token that it cannot have, or contains the caller's own token.
    """
    if exchange is None:
        if wanted:
            raise Unusable(f"{call.host.name} was not called: it has no token exchange (DOWNSTREAM_TOKENS_FILE)")
        return None
    request, own = call.request, tokens.own()
    if own and any(own in value for value in request.headers.values()):
        raise Unusable(f"{exchange.host} was not called: a header contains the caller's own token")
    has_credentials = call.auth is not None or bool(request.url.userinfo) or "Authorization" in request.headers
    if wanted and has_credentials:
        raise Unusable(f"{exchange.host} was not called: exchange=True, but the tool passes other credentials")
    if wanted is False or (has_credentials and wanted is None):
        return None
    if not exchange.may_carry(request.url):
        raise Unusable(f"{exchange.host} was not called: its token must not go over plain HTTP; use https://")
    return ExchangedCall(tokens, exchange, own, call)

"""The request state: the state of a multi-round tool between two rounds (SEP-2322, `requestState`).

The server sends the state to the client in sealed form, that is, encrypted and authenticated. The client returns the
state with the next round. Any replica with the same keys can continue the call.
"""

import hashlib
import logging
import secrets
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.request_state import RequestStateSecurity
from mcp_types import INVALID_PARAMS
from mcp_types.methods import INPUT_REQUIRED_METHODS

from anyreplica.auth.caller import ANYBODY, owner_of
from anyreplica.settings import CoreSettings
from anyreplica.shared.outage import Outage

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)


def security(settings: CoreSettings) -> RequestStateSecurity:
    """Return how request states are sealed: with the first key of REQUEST_STATE_KEYS.

    A sealed state is valid only for the same caller, the same arguments and the same server name, and only for a
    limited time. Without keys, a replica makes a random key at its start. This key is lost when the replica stops.
    """
    keys = settings.request_state_ring or [secrets.token_hex(32)]
    return RequestStateSecurity(keys=keys, ttl=settings.request_state_seconds, bind_principal=_principal)


def _principal(context: ServerRequestContext[Any, Any]) -> str | None:
    owner = owner_of(context.request.scope) if context.request else ANYBODY
    return None if owner == ANYBODY else owner


_SEALED: ContextVar[str | None] = ContextVar("sealed_request_state", default=None)


async def note_state(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Note the sealed state of a request for `OneUse`. (SDK middleware around the boundary that unseals the state.)"""
    sealed = (ctx.params or {}).get("requestState") if ctx.method in INPUT_REQUIRED_METHODS else None
    _SEALED.set(sealed if isinstance(sealed, str) else None)
    return await call_next(ctx)


class OneUse:
    """SDK middleware that accepts each request state only once, on all replicas together.

    It runs inside the boundary, which has already refused expired states and states of other callers or other
    arguments. So no caller can use up a state of another caller. If a caller sends the same state a second time, this
    middleware refuses the call, and the client must start the call again. Without Redis, or while Redis cannot be
    reached, a state can be used several times until it expires.
    """

    def __init__(self, redis: "Redis", seconds: float, prefix: str) -> None:
        self._redis = redis
        self._seconds = seconds
        self._prefix = prefix
        self._outage = Outage(logger, "a requestState is accepted without the check for a second use")

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        sealed = _SEALED.get()
        _SEALED.set(None)
        if sealed is not None and await self._is_spent(sealed):
            logger.warning("requestState rejected on %s: it was used before", ctx.method)
            # The same text as the SDK's refusals, which gives an attacker no information.
            raise MCPError(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        return await call_next(ctx)

    async def _is_spent(self, sealed: str) -> bool:
        key = f"{self._prefix}:request_state:{hashlib.sha256(sealed.encode()).hexdigest()}"
        with self._outage.best_effort():
            return not await self._redis.set(key, b"", nx=True, ex=int(self._seconds) + 1)
        return False

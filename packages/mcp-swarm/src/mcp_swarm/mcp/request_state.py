"""What a multi-round tool remembers between its rounds: sealed, sent to the client, and given back by it.

Any replica with the same keys continues what another began (SEP-2322, `requestState`).
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

from mcp_swarm.auth.caller import caller_of
from mcp_swarm.settings import Settings
from mcp_swarm.shared.lost_redis import reason

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)


def security(settings: Settings) -> RequestStateSecurity:
    """How states are sealed: with the first key of the ring, bound to caller, arguments, server's name and time.

    A single replica without keys makes one, which is gone when it ends.
    """
    keys = settings.request_state_ring or [secrets.token_hex(32)]
    return RequestStateSecurity(keys=keys, ttl=settings.request_state_seconds, bind_principal=_principal)


def _principal(context: ServerRequestContext[Any, Any]) -> str | None:
    caller = caller_of(context.request.scope) if context.request else None
    return None if caller is None else caller.owner


_SEALED: ContextVar[str | None] = ContextVar("sealed_request_state", default=None)


async def note_state(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """SDK middleware around the boundary that unseals: keeps the state as it came, for `OneUse`."""
    sealed = (ctx.params or {}).get("requestState") if ctx.method in INPUT_REQUIRED_METHODS else None
    _SEALED.set(sealed if isinstance(sealed, str) else None)
    return await call_next(ctx)


class OneUse:
    """SDK middleware within that boundary: takes each state once, whichever replica it comes to.

    The boundary has refused those of other callers, other arguments, other times, so that nobody can use up a state
    that isn't theirs. A caller who repeats a round has to begin again. Without Redis, or while it can't be reached, a
    state is good for as long as it lives.
    """

    def __init__(self, redis: "Redis", seconds: float, prefix: str) -> None:
        self._redis = redis
        self._seconds = seconds
        self._prefix = prefix

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        sealed = _SEALED.get()
        _SEALED.set(None)
        if sealed is not None and await self._is_spent(sealed):
            logger.warning("requestState rejected on %s: it was used before", ctx.method)
            # In the words of the SDK's own refusals, which tell an attacker nothing.
            raise MCPError(INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
        return await call_next(ctx)

    async def _is_spent(self, sealed: str) -> bool:
        from redis.exceptions import RedisError  # noqa: PLC0415  # as in mcp_swarm.shared.redis

        key = f"{self._prefix}:request_state:{hashlib.sha256(sealed.encode()).hexdigest()}"
        try:
            return not await self._redis.set(key, b"", nx=True, ex=int(self._seconds) + 1)
        except (RedisError, OSError) as error:
            logger.warning(
                "Redis can't be reached, so a requestState is taken without a look at its past: %s", reason(error)
            )
            return False

"""The state that tools keep for a session (`ctx.set_state`), in Redis."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastmcp.exceptions import ToolError
from fastmcp.server.server import StateValue

from anyreplica.shared.lost_redis import raising_os_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis


SESSION_KEYS = "session:"
"""The beginning of the keys of FastMCP's session tools (`SessionProvider`, `UserSession`)."""

_KEPT_SECONDS = 30 * 24 * 3600
"""Lifetime of a value without a lifetime of its own, since its last use. FastMCP's session tools store such values."""


class SharedState:
    """The store that FastMCP uses for the state of a session (`ctx.set_state`) and for its session tools.

    All replicas share it.

    Each method raises ToolError if Redis cannot be reached. `prefix` begins the names of all keys.
    """

    def __init__(self, redis: "Redis", prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix

    def part(self, number: int) -> "SharedState":
        """Return the store of a mounted server, whose values are apart from those of the other servers."""
        return SharedState(self._redis, f"{self._prefix}:{number}")

    async def get(self, *, key: str) -> StateValue | None:
        """Return a value, or None."""
        name = self._name(key)
        with _reachable():
            if key.startswith(SESSION_KEYS):
                text = await self._redis.getex(name, ex=_KEPT_SECONDS)
            else:
                text = await self._redis.get(name)
        return None if text is None else StateValue.model_validate_json(text)

    async def put(self, *, key: str, value: StateValue, ttl: float = _KEPT_SECONDS) -> None:
        """Store a value for `ttl` seconds. Raise PydanticSerializationError if JSON has no form for it."""
        text = value.model_dump_json()
        with _reachable():
            await self._redis.set(self._name(key), text, ex=int(ttl))

    async def delete(self, *, key: str) -> None:
        """Remove a value."""
        with _reachable():
            await self._redis.delete(self._name(key))

    def _name(self, key: str) -> str:
        return f"{self._prefix}:session_state:{key}"


@contextmanager
def _reachable() -> Iterator[None]:
    try:
        with raising_os_errors():
            yield
    except OSError:
        text = "The state of the session cannot be used now, because Redis cannot be reached; retry later."
        raise ToolError(text) from None

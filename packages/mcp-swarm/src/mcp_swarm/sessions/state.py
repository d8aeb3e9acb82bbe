"""The state that tools keep for a session (`ctx.set_state`), in Redis."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastmcp.exceptions import ToolError
from fastmcp.server.server import StateValue

from mcp_swarm.shared.lost_redis import raising_os_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis


class SharedState:
    """The store that FastMCP's Context uses for the state of a session. All replicas share it.

    Each method raises ToolError if Redis cannot be reached. `prefix` begins the names of all keys.
    """

    def __init__(self, redis: "Redis", prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix

    async def get(self, *, key: str) -> StateValue | None:
        """Return a value, or None."""
        with _reachable():
            text = await self._redis.get(self._name(key))
        return None if text is None else StateValue.model_validate_json(text)

    async def put(self, *, key: str, value: StateValue, ttl: float) -> None:
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

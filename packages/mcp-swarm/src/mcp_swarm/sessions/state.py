"""The state that tools keep for a session (`ctx.set_state`), in Redis."""

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
        try:
            with raising_os_errors():
                text = await self._redis.get(self._name(key))
        except OSError:
            raise _unreachable() from None
        return None if text is None else StateValue.model_validate_json(text)

    async def put(self, *, key: str, value: StateValue, ttl: float) -> None:
        """Store a value for `ttl` seconds. Raise PydanticSerializationError if JSON has no form for it."""
        text = value.model_dump_json()
        try:
            with raising_os_errors():
                await self._redis.set(self._name(key), text, ex=int(ttl))
        except OSError:
            raise _unreachable() from None

    async def delete(self, *, key: str) -> None:
        """Remove a value."""
        try:
            with raising_os_errors():
                await self._redis.delete(self._name(key))
        except OSError:
            raise _unreachable() from None

    def _name(self, key: str) -> str:
        return f"{self._prefix}:session_state:{key}"


def _unreachable() -> ToolError:
    return ToolError("The state of the session cannot be used now, because Redis cannot be reached; retry later.")

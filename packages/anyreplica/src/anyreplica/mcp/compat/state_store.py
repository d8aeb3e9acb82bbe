"""The store of FastMCP's session state. It uses private names of FastMCP, which `tests/test_private_names.py` lists."""

import logging
import weakref
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.server import StateValue

from anyreplica.shared.outage import Outage

if TYPE_CHECKING:
    from redis.asyncio import Redis

_OUTAGE = Outage(logging.getLogger(__name__), "the state of sessions cannot be read or changed")

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


def _reachable() -> AbstractContextManager[None]:
    text = "The state of the session cannot be used now, because Redis cannot be reached; retry later."
    return _OUTAGE.required(lambda _: ToolError(text))


class StateStore:
    """A placeholder for FastMCP's store of session state, which makes the real store when a state is first stored.

    In every handshake-protocol call, FastMCP reads from the store which components a session has hidden. Without
    `HANDSHAKE_SESSIONS=full`, FastMCP gets no session ids, so no session has hidden anything. Importing and making the
    real store takes 0.125 s and 6 MB of memory.

    `shared` stores the sessions of FastMCP's session tools (`SessionProvider`, `UserSession`), which outlive a request.
    None: the real store has them, too.
    """

    def __init__(self, mcp: FastMCP, shared: SharedState | None) -> None:
        self._mcp = weakref.ref(mcp)
        self._shared = shared
        self._real: Any = None

    async def get(self, *, key: str) -> StateValue | None:
        """Return a value, or None."""
        store = self._store(key)
        return None if store is None else await store.get(key=key)

    async def put(self, *, key: str, value: StateValue, **options: Any) -> None:
        """Store a value."""
        store = self._store(key)
        if store is None:
            mcp = cast("Any", self._mcp())
            mcp._FastMCP__state_store = None
            store = self._real = mcp._state_store
            mcp._FastMCP__state_store = self
        await store.put(key=key, value=value, **options)

    async def delete(self, *, key: str) -> None:
        """Remove a value."""
        store = self._store(key)
        if store is not None:
            await store.delete(key=key)

    def _store(self, key: str) -> Any:
        return self._shared if self._shared is not None and key.startswith(SESSION_KEYS) else self._real


def store_state(mcp: FastMCP, state: SharedState | None, *, whole: bool) -> None:
    """Choose the store for session state (`ctx.set_state`) and for FastMCP's session tools.

    The choice of the server's author comes first (`session_state_store`).

    Args:
        state: the store that replicas share. None: the server's memory.
        whole: whether `state` has the state of `ctx.set_state`, too. Otherwise this state lasts for one request.
    """
    if mcp._state_storage is None and not isinstance(cast("Any", mcp)._FastMCP__state_store, StateStore | SharedState):
        cast("Any", mcp)._FastMCP__state_store = state if whole and state is not None else StateStore(mcp, state)

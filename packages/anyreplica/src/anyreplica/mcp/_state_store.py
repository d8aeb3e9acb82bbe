"""The store of FastMCP's session state. It uses private names of FastMCP, which `tests/test_private_names.py` lists."""

import weakref
from typing import Any, cast

from fastmcp import FastMCP
from fastmcp.server.server import StateValue

from anyreplica.mcp.session_state import SESSION_KEYS, SharedState


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

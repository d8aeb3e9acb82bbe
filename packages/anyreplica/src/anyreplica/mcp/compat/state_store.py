"""The store of FastMCP's session state. It uses private names of FastMCP, which `tests/test_private_names.py` lists."""

import asyncio
import contextlib
import logging
import time
import weakref
from contextlib import AbstractContextManager
from typing import Any, cast

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_http_request
from fastmcp.server.server import StateValue
from fastmcp.server.transforms import visibility
from starlette.types import Scope

from anyreplica.auth.caller import ANYBODY
from anyreplica.auth.client_identity import ClientIdentities
from anyreplica.http.request_record import record_of
from anyreplica.mcp.call import opened_session
from anyreplica.shared.outage import Outage
from anyreplica.shared.session_state import LocalState, StateLimits, StateValues

_OUTAGE = Outage(logging.getLogger(__name__), "the state of sessions cannot be read or changed")

SESSION_KEYS = "session:"
"""The beginning of the keys of FastMCP's session tools (`SessionProvider`, `UserSession`)."""
_LASTING = (SESSION_KEYS, "user:", "process:")
"""The beginnings of the keys of values that belong to no session of a client and to no request."""

_KEPT_SECONDS = 30 * 24 * 3600
"""Lifetime of a value without a lifetime of its own, since its last use. FastMCP's session tools store such values."""
_TASK_SECONDS = 3600
"""Lifetime of a value that a task stores for the request that has created it."""


class StateStore:
    """The store that FastMCP uses for the state of a session (`ctx.set_state`) and for its session tools.

    - The state of a session of a client lasts as long as the session. Without `HANDSHAKE_SESSIONS=full`, FastMCP knows
      no sessions of clients.
    - The state of a request without such a session lasts as long as the request. It stays in this replica.
    - The values of FastMCP's session tools last for 30 days after their last use.

    Each method raises ToolError if Redis cannot be reached. `put` raises it at a limit, too.

    Args:
        shared: the store that replicas share. None: all values are in this replica.
        trusted_proxies: TRUSTED_PROXIES.
        keeps_state: whether a session of a client keeps state between its calls (`HANDSHAKE_SESSIONS=full`).
    """

    def __init__(
        self,
        limits: StateLimits,
        shared: StateValues | None,
        trusted_proxies: tuple[str, ...],
        *,
        keeps_state: bool,
    ) -> None:
        self._limits = limits
        self._local = LocalState(limits)
        self._of_session_tools: StateValues = shared or self._local
        self._of_clients = self._of_session_tools if keeps_state else self._local
        self._clients = ClientIdentities(trusted_proxies)
        self._part = 0
        self._of_requests = set[str]()
        """The groups of the requests that have stored values and still run."""

    def part(self, number: int) -> "StateStore":
        """Return the store of a mounted server, whose values are apart from those of the other servers."""
        found = StateStore.__new__(StateStore)
        found.__dict__.update(self.__dict__)
        found._part = number
        return found

    @property
    def is_empty(self) -> bool:
        """True: no session, user or request has state. False: some may have state, perhaps in another replica."""
        return self._of_clients is self._local and self._local.is_empty

    async def get(self, *, key: str) -> StateValue | None:
        """Return a value, or None."""
        group, name = self._place(key)
        values = self._values(key, group)
        with _reachable():
            text = await values.get(group, name, _KEPT_SECONDS if key.startswith(SESSION_KEYS) else None)
        return None if text is None else StateValue.model_validate_json(text)

    async def put(self, *, key: str, value: StateValue, ttl: float = _KEPT_SECONDS) -> None:
        """Store a value.

        Args:
            ttl: lifetime in seconds. The state of a session of a client, and of a request, has another one, see above.

        Raises:
            PydanticSerializationError: JSON has no form for the value.
            ToolError: a limit leaves no room for the value.
        """
        text = value.model_dump_json().encode()
        group, name = self._place(key)
        scope = _scope()
        if not key.startswith(_LASTING):
            session = None if scope is None else opened_session(scope)
            if session is not None and session.key == group:
                ttl = session.expires - time.time()
            elif scope is not None:
                self._end_with_request(scope, group)
            else:
                ttl = min(ttl, _TASK_SECONDS)
        values = self._values(key, group)
        with _reachable():
            caller = ANYBODY if scope is None else self._clients.share_of(scope)
            stored = await values.put(group, name, text, caller, max(1, int(ttl)))
        if not stored:
            raise ToolError(
                f"The state was not stored, because there is no room for {len(text)} bytes: {self._limits.describe()}; "
                "store less, or delete state that is no longer needed."
            )

    async def delete(self, *, key: str) -> None:
        """Remove a value."""
        group, name = self._place(key)
        with _reachable():
            await self._values(key, group).delete(group, name)

    async def end_session(self, key: str) -> None:
        """Remove the state of a session that its client has ended. Without Redis, it expires with the session."""
        with _OUTAGE.best_effort():
            await self._of_clients.drop(key)

    def _place(self, key: str) -> tuple[str, str]:
        """Return the group of a key, and its name in the group. All keys of a session are one group."""
        if key.startswith(_LASTING):
            return f"{self._part}:{key}", ""
        group, _, name = key.partition(":")
        return group, f"{self._part}:{name}"

    def _values(self, key: str, group: str) -> StateValues:
        if key.startswith(SESSION_KEYS):
            return self._of_session_tools
        # A request without a session has no state in Redis.
        return self._local if group in self._of_requests or _is_of_request(key, group) else self._of_clients

    def _end_with_request(self, scope: Scope, group: str) -> None:
        if group in self._of_requests:
            return
        self._of_requests.add(group)
        loop = asyncio.get_running_loop()

        def end() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                # A thread of a tool may be the last one that uses the request.
                loop.call_soon_threadsafe(self._forget, group)

        weakref.finalize(record_of(scope), end).atexit = False

    def _forget(self, group: str) -> None:
        self._of_requests.discard(group)
        self._local.forget(group)


def _scope() -> Scope | None:
    """Return the ASGI scope of the current request. None: there is no request."""
    try:
        return get_http_request().scope
    except RuntimeError:
        return None


def _is_of_request(key: str, group: str) -> bool:
    """Return whether a key belongs to the request in which this code runs, and not to a session of its client."""
    scope = None if key.startswith(_LASTING) else _scope()
    if scope is None:
        return False
    session = opened_session(scope)
    return session is None or session.key != group


def _reachable() -> AbstractContextManager[None]:
    text = "The state of the session cannot be used now, because Redis cannot be reached; retry later."
    return _OUTAGE.required(lambda _: ToolError(text))


def store_state(mcp: FastMCP, state: StateStore) -> None:
    """Let a server use this store for session state (`ctx.set_state`) and for FastMCP's session tools.

    The choice of the server's author comes first (`session_state_store`).
    """
    if mcp._state_storage is None:
        cast("Any", mcp)._FastMCP__state_store = state


_rules = visibility.get_visibility_rules


async def _rules_in_state(context: Context) -> list[dict[str, Any]]:
    """Return the visibility rules of a session, as FastMCP's function does. If the store is empty, return none at once.

    FastMCP asks in each call, and first creates a session of the SDK and its id for the key of the rules.
    """
    state = getattr(context.fastmcp, "_FastMCP__state_store", None)  # the property would create a store
    return [] if isinstance(state, StateStore) and state.is_empty else await _rules(context)


def skip_empty_state() -> None:
    """Let FastMCP skip the lookup of visibility rules while the store is empty, in all servers of the process."""
    visibility.get_visibility_rules = _rules_in_state

"""The name under which a replica counts what a caller has in flight."""

from collections.abc import Sequence

from starlette.types import Scope

from anyreplica.auth.address import Addresses
from anyreplica.auth.caller import caller_of


class CallerNames:
    """The names of callers. `trusted` lists the proxies that name the address of a caller without authentication."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._addresses = Addresses(trusted)

    def of(self, scope: Scope) -> str | None:
        """Return the name or the address of a caller. None: the replica cannot tell it from other callers."""
        caller = caller_of(scope)
        return self._addresses.of(scope) if caller is None else caller.name

"""The identity of the client of a request, whose use of a limit a replica counts."""

from collections.abc import Sequence

from starlette.types import Scope

from anyreplica.auth.address import Addresses
from anyreplica.auth.caller import caller_of


class ClientIdentities:
    """The identities of clients. `trusted` lists the proxies that name the address of a client without authentication.

    Every limit of one caller is counted under this identity.
    """

    def __init__(self, trusted: Sequence[str]) -> None:
        self._addresses = Addresses(trusted)

    def of(self, scope: Scope) -> str | None:
        """Return the identity of the caller, or the address of a client that does not authenticate.

        None: the replica cannot tell the client from others.
        """
        caller = caller_of(scope)
        return self._addresses.of(scope) if caller is None else caller.identity

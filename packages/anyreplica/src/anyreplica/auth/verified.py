"""The tokens that a replica has verified in the last seconds."""

import hashlib
import time
from collections import OrderedDict

from anyreplica.auth.caller import Caller

_REMEMBERED = 4096
"""Maximum number of tokens in the cache."""


class VerifiedTokens:
    """A cache of the callers of verified tokens, by the hash of the token.

    Args:
        seconds: maximum lifetime of an entry. 0: nothing is cached.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: OrderedDict[bytes, tuple[Caller, float]] = OrderedDict()

    def get(self, token: bytes) -> Caller | None:
        """Return the caller of a token that was verified a short time ago."""
        known = self._known.get(hashlib.sha256(token).digest())
        return known[0] if known is not None and time.time() < known[1] else None

    def put(self, token: bytes, caller: Caller, expires: float | None) -> None:
        """Remember a token for the lifetime of an entry, but not after it expires.

        Args:
            expires: when the token expires, in seconds since the epoch. None: it does not expire.
        """
        if not self._seconds:
            return
        digest = hashlib.sha256(token).digest()
        self._known.pop(digest, None)
        while len(self._known) >= _REMEMBERED:
            self._known.popitem(last=False)
        ends = time.time() + self._seconds
        self._known[digest] = caller, ends if expires is None else min(ends, expires)

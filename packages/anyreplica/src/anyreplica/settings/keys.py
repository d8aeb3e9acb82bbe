"""Keys with one purpose each, derived from REQUEST_STATE_KEYS."""

import hmac
from collections.abc import Iterable


def derived(keys: Iterable[str], purpose: str) -> list[bytes]:
    """Return a key of 32 bytes for each key, in the same order.

    What a key of one purpose has encrypted or signed is not valid for another purpose.
    """
    return [hmac.digest(key.encode(), f"anyreplica {purpose}".encode(), "sha256") for key in keys]

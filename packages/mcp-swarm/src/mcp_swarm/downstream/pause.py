"""How long to wait before a call is tried again."""

import datetime
import email.utils
import random

_FIRST = 0.1
_LONGEST = 2.0


def pause(tried: int, retry_after: str | None = None) -> float:
    """Seconds.

    A random time up to one that doubles with each try ("full jitter" in M. Brooker's "Exponential Backoff And
    Jitter", AWS Architecture Blog), so that callers who failed together don't come back together; after what the host
    asks for.

    Args:
        tried: how often, 1 or more.
        retry_after: what the host said (RFC 9110, section 10.2.3), if it did.
    """
    return _asked(retry_after or "") + random.uniform(0, min(_LONGEST, _FIRST * 2 ** (tried - 1)))  # noqa: S311


def _asked(retry_after: str) -> float:
    if retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after)
    try:
        at = email.utils.parsedate_to_datetime(retry_after)
    except ValueError:
        return 0.0
    if at.tzinfo is None:  # "-0000", which is UTC
        at = at.replace(tzinfo=datetime.UTC)
    return max(0.0, (at - datetime.datetime.now(datetime.UTC)).total_seconds())

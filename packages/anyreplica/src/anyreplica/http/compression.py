"""Compress replies with gzip for clients that accept it (RFC 9110, section 12.5.3).

Compression of small replies is not worth its processor time. Measured with rows of JSON and the first level of gzip,
one processor core compresses replies of 16 KB and more at the speed of a 500 Mbit/s network. For replies of 4 KB the
speed is 270 Mbit/s, and for replies of 1 KB it is 40 Mbit/s. Also, a reply that fits into ten TCP segments arrives in
one round trip (RFC 6928).
"""

import asyncio
import gzip
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial

_QUICK = 64 * 1024
"""Maximum size of a body that is compressed on the event loop, in bytes. This takes less than a millisecond.

A larger body is compressed in a thread. That does not block the event loop, because gzip releases Python's global lock.
"""

_THREADS = ThreadPoolExecutor(os.cpu_count(), "gzip")
"""Threads that only compress. asyncio's own threads also run what may block for a long time, such as jobs."""

_OF_GZIP = re.compile(r"(?:gzip|x-gzip|\*)(?:\s*;\s*q=(?P<q>[0-9.]+))?", re.IGNORECASE)


def accepts_gzip(header: bytes) -> bool:
    """Return whether the value of `Accept-Encoding` accepts gzip. A value of more than 1,000 bytes does not."""
    return len(header) <= 1000 and _accepts_gzip(header)


@lru_cache(maxsize=64)
def _accepts_gzip(header: bytes) -> bool:
    accepted = {}
    for part in header.decode("latin-1").split(","):
        match = _OF_GZIP.fullmatch(part.strip())
        if match is not None:
            accepted[part.strip()[:1] == "*"] = _quality(match["q"]) > 0
    return accepted.get(False, accepted.get(True, False))


async def compressed(body: bytes) -> bytes:
    if len(body) <= _QUICK:
        return gzip.compress(body, 1, mtime=0)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(gzip.compress, body, 1, mtime=0))


def _quality(value: str | None) -> float:
    try:
        return 1.0 if value is None else float(value)
    except ValueError:
        return 0.0

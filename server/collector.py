"""The garbage collector and the allocator of a replica that has started."""

import ctypes
import gc
from contextlib import suppress

_M_MMAP_THRESHOLD = -3
"""Of mallopt(3)."""

_LARGE = 256 * 1024
"""Bytes of a block of memory that is the system's again as soon as it is free. By itself glibc raises this bound to the
size of what was freed, up to 32 MB, and the memory of large bodies and replies stays with the replica."""


def settle() -> None:
    """Take what the start has made out of the collector's sight, and give back the memory that it no longer needs.

    Without this each full collection looks through all modules and models, and holds up every request meanwhile. How
    often the collector looks is left to Python: no request leaves anything for it, whether it succeeds or fails, but
    tools may, and what a tool holds may be large.
    """
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # another libc than glibc has no such functions, and no such need
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        libc.malloc_trim(0)

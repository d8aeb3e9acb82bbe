"""The garbage collector and the allocator of a replica that has started."""

import ctypes
import gc
from contextlib import suppress

_M_MMAP_THRESHOLD = -3
"""A parameter of mallopt(3)."""

_LARGE = 256 * 1024
"""Blocks of so many bytes go back to the system when they are freed. glibc's own limit grows up to 32 MB: the memory of
large bodies and replies would stay with the replica."""


def settle() -> None:
    """Hide all objects of the start from the garbage collector, and return unused memory to the system.

    Without this, each full collection visits all modules and models, and all requests wait meanwhile. Python's own
    thresholds stay: requests leave no garbage, whether they succeed or fail, but tools may leave large garbage.
    """
    gc.collect()
    gc.freeze()
    with suppress(OSError, AttributeError):  # only glibc has these functions and needs them
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        libc.malloc_trim(0)

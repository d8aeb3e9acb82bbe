"""The garbage collector and the allocator of a replica that has started."""

import ctypes
import gc
from contextlib import suppress

_THRESHOLDS = (50_000, 10, 20)
"""Objects between two looks at the youngest, and how many of these make one at the older ones. Requests leave nothing
behind for the collector, but each that is being answered holds some hundreds of objects for so long: with Python's own
2,000 a few dozen at once make it look through all of them for nothing, for milliseconds."""


def settle() -> None:
    """Take what the start has made out of the collector's sight, and give back the memory that it no longer needs.

    Without this each full collection looks through all modules and models, and holds up every request meanwhile.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    with suppress(OSError, AttributeError):  # another libc than glibc has no such function, and no such need
        ctypes.CDLL("libc.so.6").malloc_trim(0)

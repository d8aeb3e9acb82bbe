"""A result that is kept."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One result, and until when it is good; times are those of `time.time`, which replicas share."""

    value: Any
    fresh: float
    """Until when it is as good as a new one."""
    stale: float
    """Until when it may be given while a new one is made."""
    size: int
    """Bytes of it, as JSON and with its key."""

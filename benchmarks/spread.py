"""A figure that was measured more than once."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class Spread:
    """One figure over several rounds."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The spread of one value or more."""
        return cls(*(float(f"{value:.6g}") for value in (statistics.median(values), min(values), max(values))))

"""Fast random choices for hypothesis.

A strategy that is created for each draw takes three times as long.
"""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

_NUMBERS = st.integers(0, 0xFFFF)
_BYTES = st.binary(max_size=60)


class Dice:
    """Random choices in a composite strategy.

    Args:
        draw: the draw function of the strategy.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def below(self, end: int) -> int:
        """Return a whole number from 0 to `end`, without `end`."""
        return self.draw(_NUMBERS) % end

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def once_in(self, times: int) -> bool:
        """Return True once in `times` calls on average."""
        return self.below(times) == times - 1

    def bytes(self, most: int = 60) -> bytes:
        """Return at most `most` random bytes, and never more than 60."""
        return self.draw(_BYTES)[:most]

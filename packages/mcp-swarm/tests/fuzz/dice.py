"""Choices that hypothesis makes, in a third of the time: a strategy that is made anew for each draw is slow."""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

_NUMBERS = st.integers(0, 0xFFFF)
_BYTES = st.binary(max_size=60)


class Dice:
    """Throws.

    Args:
        draw: of a composite strategy.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def below(self, end: int) -> int:
        """A whole number from 0 up to, but not including, `end`."""
        return self.draw(_NUMBERS) % end

    def one_of(self, options: Sequence[T]) -> T:
        """One of several."""
        return options[self.below(len(options))]

    def once_in(self, times: int) -> bool:
        """Whether something happens that happens once in so many times."""
        return self.below(times) == times - 1

    def bytes(self, most: int = 60) -> bytes:
        """Any bytes, up to 60."""
        return self.draw(_BYTES)[:most]

"""Random choices of Hypothesis or of `random.Random`, with one interface for all generators."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

_NUMBERS = st.integers(0, 0xFFFF)
_BYTES = st.binary(max_size=60)


class Dice:
    """Random choices, from functions that return a whole number (up to 65,535 or more) and at most 60 bytes."""

    def __init__(self, number: Callable[[], int], some: Callable[[], bytes]) -> None:
        self._number = number
        self._some = some

    @classmethod
    def drawn(cls, draw: st.DrawFn) -> "Dice":
        """Return the choices of Hypothesis, from two strategies: a new one for each would take three times as long."""
        return cls(lambda: draw(_NUMBERS), lambda: draw(_BYTES))

    @classmethod
    def seeded(cls, random: Random) -> "Dice":
        """Return the choices of a random generator."""
        return cls(lambda: random.getrandbits(32), lambda: random.randbytes(random.randrange(61)))

    def below(self, end: int) -> int:
        """Return a whole number from 0 to `end`, without `end`."""
        return self._number() % end

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of the options."""
        return options[self.below(len(options))]

    def once_in(self, times: int) -> bool:
        """Return True once in `times` calls on average."""
        return self.below(times) == times - 1

    def bytes(self, most: int = 60) -> bytes:
        """Return at most `most` random bytes, and never more than 60."""
        return self._some()[:most]

    def text(self, most: int = 12) -> str:
        """Return a text of at most `most` characters of any kind, lone surrogates included."""
        ends = (0x7F, 0x100, 0x10000, 0x110000)
        return "".join(chr(self.below(self.one_of(ends))) for _ in range(self.below(most + 1)))

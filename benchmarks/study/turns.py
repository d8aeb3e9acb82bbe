"""Rounds in which every case gets its turn: what a machine does meanwhile hits all of them alike."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

_Case = TypeVar("_Case")


def turns(cases: Sequence[_Case], rounds: int) -> Iterator[tuple[int, _Case]]:
    """Each case once a round, with the round's number from 1; every other round backwards: none is always first."""
    for number in range(1, rounds + 1):
        for case in cases if number % 2 else reversed(cases):
            yield number, case

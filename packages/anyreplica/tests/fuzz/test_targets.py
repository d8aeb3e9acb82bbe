"""Tests that each reader accepts or refuses damaged bytes. `FUZZ_EXAMPLES=100000` runs a longer search."""

import os

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from tests.damage.dice import Dice
from tests.damage.messages import mangled
from tests.damage.structured import replaced
from tests.fuzz.targets import TARGETS

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "300"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """Return bytes that a target accepts, with some of them changed."""
    dice = Dice.drawn(draw)
    data = dice.one_of(TARGETS[name].seeds)
    for _ in range(1 + dice.below(4)):
        if name in ("signature", "digest") and dice.once_in(2):
            data = replaced(dice, data.decode("latin-1")).encode("latin-1")
        else:
            data = mangled(dice, data)
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_is_read(name: str) -> None:
    """A target accepts its first seed; otherwise it might refuse all inputs for the same reason."""
    target = TARGETS[name]
    target.read(target.seeds[0])


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_raises_only_documented_exceptions(name: str) -> None:
    """A target raises only its documented exceptions for random and for almost valid bytes."""

    @seed(SEED)
    @settings(max_examples=EXAMPLES, deadline=None, database=None)
    @given(damaged(name) | st.binary(max_size=200))
    def try_out(data: bytes) -> None:
        TARGETS[name].try_out(data)

    try_out()


@pytest.mark.parametrize("name", TARGETS)
def test_no_depth_is_too_deep(name: str) -> None:
    """A target raises only its documented exceptions for input of any depth, even if the target is recursive."""
    for depth in (200, 1_000, 11_500, 100_000):
        for opening in (b"[", b'{"a":', b"(", b'"a";'):
            TARGETS[name].try_out(opening * depth)
            TARGETS[name].try_out(TARGETS[name].seeds[0] + b"\n" + opening * depth)

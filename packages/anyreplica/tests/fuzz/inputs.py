"""Inputs: bytes that are almost HTTP requests of callers, of both protocol families and of the jobs' routes."""

from collections.abc import Callable
from itertools import pairwise

import hypothesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

from tests.damage import fields
from tests.damage.dice import Dice
from tests.damage.messages import CALLS, OTHERS, SUBSCRIPTION, Call
from tests.damage.requests import Served, sent, some_request, spoilt
from tests.fuzz.callers import shown
from tests.mcp.paths.tools import VALID

Pieces = list[bytes]
"""Bytes for a connection; each piece is sent separately."""

SUBMISSION = {"job": "counted", "params": {"rows": 3, "form": "long"}}

_CALLS: list[Call] = [
    ("tools/call", {"name": name, "arguments": VALID[name]})
    for name in sorted(VALID.keys() - {"calls_another", "counts", "counts_in_a_thread", "counts_against_its_schema"})
]
_CALLS += CALLS
_CALLS += [
    ("tools/call", {"name": "remember", "arguments": {"value": "v"}}),
    ("tools/call", {"name": "touch", "arguments": {"uri": "template://about"}}),
    ("tools/call", {"name": "transfer", "arguments": {"amount": 3}}),
    ("tools/call", {"name": "transfer", "inputResponses": {"sure": {"action": "accept"}}, "requestState": "made up"}),
    ("tools/call", {"name": "counted", "arguments": {"rows": 3}}),
    ("tools/call", {"name": "submit_job", "arguments": {"job": "counted", "arguments": {"rows": 2}}}),
]


def feed(take: Callable[[Pieces], None], job: str, count: int, seed: int) -> None:
    """Make `count` inputs with a seed, and pass each one to `take`. Only times in signatures and tokens differ."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_inputs(Served(_CALLS, [*OTHERS, SUBSCRIPTION], job.encode(), SUBMISSION)))
    def each(pieces: Pieces) -> None:
        take(pieces)

    each()


@st.composite
def _inputs(draw: st.DrawFn, served: Served) -> Pieces:
    dice = Dice.drawn(draw)
    data = b"".join(_request(dice, served) for _ in range(3 if dice.once_in(10) else 1))
    if not dice.once_in(12):
        return [data]
    cuts = sorted({0, len(data), *(dice.below(min(len(data), 2_000) + 1) for _ in range(3))})
    return [data[start:end] for start, end in pairwise(cuts)]


def _request(dice: Dice, served: Served) -> bytes:
    if dice.once_in(50):
        return dice.one_of(fields.WHOLE)
    asked = some_request(dice, served, is_damaged=True)
    asked = asked.plus(*shown(dice, asked.method.decode(), _as_sent(asked.target), asked.body))
    if dice.once_in(4):
        for _ in range(1 + dice.below(2)):
            asked = spoilt(dice, asked)
    return sent(dice, asked)


def _as_sent(target: bytes) -> str:
    return "".join(chr(byte) if 32 < byte < 127 else "%00" for byte in target)

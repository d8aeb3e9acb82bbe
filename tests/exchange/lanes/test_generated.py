"""Whatever may come: requests and calls that hypothesis makes."""

import os

from hypothesis import given, note, settings

from tests.exchange.lanes.asked import WARNINGS
from tests.exchange.lanes.both import Pair
from tests.exchange.lanes.generated import calls, requests
from tests.exchange.lanes.wire import Sent

pytestmark = WARNINGS


EXAMPLES = int(os.environ.get("LANES_EXAMPLES", "500"))
"""Requests that each of the generating tests makes."""


@settings(max_examples=EXAMPLES, deadline=None)
@given(asked=requests())
def test_any_request_gets_one_answer(pair: Pair, asked: Sent) -> None:
    """Valid, invalid, odd."""
    note(f"{asked.method} {asked.headers} {asked.body!r}")
    assert pair.check(asked).status < 500


@settings(max_examples=EXAMPLES, deadline=None)
@given(asked=calls())
def test_any_arguments_get_one_answer(pair: Pair, asked: Sent) -> None:
    """What a tool is given, and gives back."""
    note(f"{asked.headers} {asked.body!r}")
    assert pair.check(asked).status in (200, 400)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(asked=calls())
def test_any_arguments_get_one_answer_within_middleware(pair_within: Pair, asked: Sent) -> None:
    """The same where the fast lane runs registered middleware."""
    note(f"{asked.headers} {asked.body!r}")
    assert pair_within.check(asked).status in (200, 400)

"""Tests of both paths with requests and calls that Hypothesis generates."""

import os

import pytest
from hypothesis import given, note, settings

from tests.damage.wire import Request
from tests.mcp.paths.asked import WARNINGS
from tests.mcp.paths.both import Pair
from tests.mcp.paths.generated import calls, requests

pytestmark = [pytest.mark.slow, *WARNINGS]


EXAMPLES = int(os.environ.get("PATHS_EXAMPLES", "500"))
"""Number of requests that each test generates."""


@settings(max_examples=EXAMPLES, deadline=None)
@given(asked=requests())
def test_any_request_gets_one_answer(pair: Pair, asked: Request) -> None:
    """Both paths give the same answer to any valid, invalid or odd request."""
    note(f"{asked.method!r} {asked.headers} {asked.body!r}")
    assert pair.check(asked).status < 500


@settings(max_examples=EXAMPLES, deadline=None)
@given(asked=calls())
def test_any_arguments_get_one_answer(pair: Pair, pair_within: Pair, asked: Request) -> None:
    """Both paths give the same answer to a call with any arguments, with and without middleware on the fast path."""
    note(f"{asked.headers} {asked.body!r}")
    for servers in (pair, pair_within):
        assert servers.check(asked).status in (200, 400)

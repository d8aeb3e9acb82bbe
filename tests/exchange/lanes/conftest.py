"""The two servers that answer each request."""

from collections.abc import Iterator

import pytest

from tests.exchange.lanes.both import Pair
from tests.exchange.lanes.looks import Looks


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Two servers without middleware of their own."""
    made = Pair()
    yield made
    made.close()


@pytest.fixture(scope="module")
def pair_within() -> Iterator[Pair]:
    """Two servers with registered middleware, which the fast lane runs, too."""
    made = Pair(Looks)
    yield made
    made.close()

"""Fixtures with the two servers that answer each request."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.mcp.paths.both import Pair
from tests.mcp.paths.looks import Looks


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Two servers without middleware."""
    with closing(Pair()) as made:
        yield made


@pytest.fixture(scope="module")
def pair_within() -> Iterator[Pair]:
    """Two servers with registered middleware, which the fast path also runs."""
    with closing(Pair(Looks)) as made:
        yield made

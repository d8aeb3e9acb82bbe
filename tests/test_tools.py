"""How to test a tool."""

import asyncio

import pytest
from mcp_swarm.testing import CallFailed, Client

# Without the sample there is nothing to test. Put your own tool here.
arithmetic = pytest.importorskip("server.tools.arithmetic")


def test_the_function_by_itself() -> None:
    """A tool is a Python function: call it."""
    assert asyncio.run(arithmetic.add(1, 2)) == 3


def test_as_a_client_calls_it(client: Client) -> None:
    """With its arguments checked and its result as JSON."""
    assert client.call("add", a=1, b=2) == 3


def test_wrong_arguments(client: Client) -> None:
    """The caller reads which argument is wrong."""
    with pytest.raises(CallFailed, match=r"a\s+Input should be a valid number"):
        client.call("add", a="one", b=2)

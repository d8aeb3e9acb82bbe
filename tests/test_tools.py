"""Example tests of a tool."""

import asyncio

import pytest
from anyreplica.testing import CallFailed, Client

# If you have removed this sample tool, pytest skips these tests. Change them so that they test a tool of your server.
arithmetic = pytest.importorskip("server.tools.arithmetic")


def test_the_function_by_itself() -> None:
    """A tool is a Python function, so a test can call it directly."""
    assert asyncio.run(arithmetic.add(1, 2)) == 3


def test_as_a_client_calls_it(client: Client) -> None:
    """A client's call checks the arguments and returns the result as JSON."""
    assert client.call("add", a=1, b=2) == 3


def test_wrong_arguments(client: Client) -> None:
    """The error of a call with a wrong argument names the argument."""
    with pytest.raises(CallFailed, match=r"a\s+Input should be a valid number"):
        client.call("add", a="one", b=2)

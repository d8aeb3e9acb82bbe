"""Example tests of resources and a prompt."""

import pytest
from anyreplica.testing import CallFailed, Client


def test_a_resource(client: Client) -> None:
    """A client can read a resource by its URI."""
    pytest.importorskip("server.resources.about")
    assert client.read("template://greeting/de/Ada") == "Hallo, Ada!"


def test_a_resource_that_does_not_exist(client: Client) -> None:
    """The error of a resource that does not exist gives the reason."""
    pytest.importorskip("server.resources.about")
    with pytest.raises(CallFailed, match="no greeting in 'xx'"):
        client.read("template://greeting/xx/Ada")


def test_a_prompt(client: Client) -> None:
    """A client can get a prompt by its name and arguments."""
    pytest.importorskip("server.prompts.summary")
    assert "at most 2 sentences" in client.prompt("summarize", text="…", sentences="2")

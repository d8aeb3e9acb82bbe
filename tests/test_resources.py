"""How to test resources and prompts."""

import pytest
from mcp_swarm.testing import CallFailed, Client


def test_a_resource(client: Client) -> None:
    """By its URI."""
    pytest.importorskip("server.resources.about")
    assert client.read("template://greeting/de/Ada") == "Hallo, Ada!"


def test_a_resource_that_is_not_there(client: Client) -> None:
    """The caller reads why."""
    pytest.importorskip("server.resources.about")
    with pytest.raises(CallFailed, match="no greeting in 'xx'"):
        client.read("template://greeting/xx/Ada")


def test_a_prompt(client: Client) -> None:
    """By its name and arguments."""
    pytest.importorskip("server.prompts.summary")
    assert "at most 2 sentences" in client.prompt("summarize", text="…", sentences="2")

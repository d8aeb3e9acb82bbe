"""Tests of state that outlives a call: each call reaches another replica than the one that stored the value."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyreplica.features.keys.key import hash_of
from tests.fastmcp_server.clients import FAMILIES, conversation, said, tools
from tests.fastmcp_server.conftest import command, replicas
from tests.replicas import Family, Fleet, running

pytestmark = [pytest.mark.anyio, pytest.mark.needs("redis")]
families = pytest.mark.parametrize("family", FAMILIES)
servers = pytest.mark.parametrize("server", ["", "kept_"], ids=["of the server", "of a mounted server"])


@servers
async def test_the_state_of_a_session(brought: Fleet, server: str) -> None:
    """`ctx.set_state` holds for the next calls of this session and this server, on any replica, and no others."""
    other = "" if server else "kept_"
    async with conversation(brought, "handshake") as client:
        assert await said(client, f"{server}remember", value="tea") == "tea"
        assert await said(client, f"{server}recall") == "tea"
        assert await said(client, f"{other}recall") == "None"
    async with conversation(brought, "handshake") as stranger:
        assert await said(stranger, f"{server}recall") == "None"


async def test_state_without_a_session(brought: Fleet) -> None:
    """In the stateless protocol, `ctx.set_state` lasts for one call, as in FastMCP."""
    async with conversation(brought, "stateless") as client:
        stored = await client.call_tool("remember", {"value": "tea"}, raise_on_error=False)
        assert stored.is_error or await said(client, "recall") == "None"


@families
async def test_session_tools(brought: Fleet, family: Family) -> None:
    """A session of `create_session` exists on every replica until `end_session`. No other id is accepted."""
    async with conversation(brought, family) as client:
        made = (await client.call_tool("kept_create_session")).data
        assert await said(client, "kept_write", session_id=made, value="tea") == "tea"
        assert await said(client, "kept_read", session_id=made) == "tea"
        await client.call_tool("kept_end_session", {"session_id": made})
        for unknown in (made, "made-up"):
            assert await said(client, "kept_read", session_id=unknown) == "Invalid or unknown session."


LIBRARY = ["opening_hours", "shelves_find", "who_serves"]
KEYS = {"ada": "a" * 40, "bob": "b" * 40}


def key_file(folder: Path) -> Path:
    """Write the file with the keys of both users."""
    file = folder / "keys"
    file.write_text("".join(json.dumps({"id": n, "hash": hash_of(k)}) + "\n" for n, k in KEYS.items()))
    return file


@pytest.fixture(scope="module")
def with_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas that know two users."""
    folder = tmp_path_factory.mktemp("with-keys")
    with replicas(folder, "hiding.py:mcp", AUTH_ENABLED="true", API_KEYS_FILE=str(key_file(folder))) as found:
        yield found


@families
@servers
async def test_the_notes_of_a_user(with_keys: Fleet, family: Family, server: str) -> None:
    """What a tool keeps in a `UserSession` is there for this user only, on every replica, in both families."""
    async with conversation(with_keys, family, token=KEYS["ada"]) as ada:
        await ada.call_tool(f"{server}note", {"value": family})
        assert await said(ada, f"{server}noted") == family
    async with conversation(with_keys, family, token=KEYS["bob"]) as bob:
        assert await said(bob, f"{server}noted") == "None"


@pytest.fixture(scope="module")
def without_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One replica that knows the same users and keeps all state in its memory."""
    folder = tmp_path_factory.mktemp("without-redis")
    keys = {"AUTH_ENABLED": "true", "API_KEYS_FILE": str(key_file(folder))}
    full = {"HANDSHAKE_SESSIONS": "full", "MCP_COMPONENTS": ""}
    with running(folder, 1, command=command("hiding.py:mcp"), **keys, **full) as found:
        yield found


@pytest.mark.servers
@pytest.mark.parametrize("replicas_of", ["without_redis", "with_keys"])
async def test_a_session_hides_a_tool(replicas_of: str, request: pytest.FixtureRequest) -> None:
    """A tool that a session hides is gone for this session on every replica, and there for all others."""
    served: Fleet = request.getfixturevalue(replicas_of)
    async with conversation(served, "handshake", token=KEYS["ada"]) as client:
        assert await tools(client, "library_") == LIBRARY
        await client.call_tool("hide_tool", {"name": "library_opening_hours"})
        assert await tools(client, "library_") == LIBRARY[1:]
        assert await said(client, "library_opening_hours") == "Unknown tool: 'library_opening_hours'"
    async with conversation(served, "handshake", token=KEYS["ada"]) as other:
        assert await tools(other, "library_") == LIBRARY
        assert await said(other, "library_opening_hours") == "9 to 5"


async def test_notes_need_a_user(brought: Fleet) -> None:
    """Without authentication, a `UserSession` is an error that says so."""
    async with conversation(brought, "stateless") as client:
        assert "requires an authenticated principal" in await said(client, "noted")

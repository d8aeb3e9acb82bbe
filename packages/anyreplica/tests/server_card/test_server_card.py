"""Tests of the server card (SEP-2127), of the AI catalog that names it, and of the file for the MCP registry."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from fastmcp import FastMCP
from mcp.types import Icon
from pydantic import ValidationError

from anyreplica import Settings
from conftest import ROOT
from tests.auth.test_crossing import login, served
from tests.docs.blocks import blocks
from tests.starts import start

CARD, CATALOG = "/mcp/server-card", "/.well-known/ai-catalog.json"
KEYED: dict[str, Any] = {"auth_enabled": True, "auth_token": "let-me-in"}


def weather(**options: Any) -> FastMCP:
    """Return a server with one tool, whose name no card shows."""
    mcp = FastMCP("Weather", version="1.4.0", instructions="Forecasts for any place.\nAsk for a city.", **options)

    @mcp.tool
    def secret_forecast() -> str:
        return "rain"

    return mcp


def test_a_card_says_how_to_connect() -> None:
    """The card has what a client needs before it connects, and the catalog names the card."""
    icon = Icon(src="https://example.com/icon.png", mimeType="image/png", sizes=["48x48"])
    mcp = weather(website_url="https://example.com", icons=[icon])
    with served(mcp, mcp_name="weather", public_url="https://mcp.example.com/api") as client:
        reply = client.http.get(CARD)
        assert reply.headers["content-type"] == "application/mcp-server-card+json"
        assert reply.headers["access-control-allow-origin"] == "*"
        assert reply.headers["cache-control"] == "public, max-age=3600"
        assert reply.json() == {
            "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
            "name": "com.example.mcp/weather",
            "version": "1.4.0",
            "description": "Forecasts for any place.",
            "title": "Weather",
            "websiteUrl": "https://example.com",
            "icons": [{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}],
            "remotes": [
                {
                    "type": "streamable-http",
                    "url": "https://mcp.example.com/api/mcp",
                    "supportedProtocolVersions": client.http.get("/version").json()["protocol_versions"],
                }
            ],
        }
        reply = client.http.get(CATALOG)
        assert reply.headers["content-type"] == "application/ai-catalog+json"
        (entry,) = reply.json()["entries"]
        assert entry == {
            "identifier": "urn:air:mcp.example.com:weather",
            "displayName": "Weather",
            "type": "application/mcp-server-card+json",
            "url": "https://mcp.example.com/api/mcp/server-card",
        }


@pytest.mark.parametrize("guard", ["key", "login"])
def test_a_card_is_public_and_names_no_tool(guard: str) -> None:
    """Everybody may read the card, also in a page of another origin. It says whether a client needs a key."""
    mcp = weather() if guard == "key" else login(weather())
    with served(mcp, **(KEYED if guard == "key" else {})) as client:
        for path in (CARD, CATALOG):
            reply = client.http.get(path, headers={"Origin": "https://elsewhere.example"})
            assert reply.status_code == 200
            assert "secret_forecast" not in reply.text
            assert "Forecasts" not in reply.text
        (remote,) = client.http.get(CARD).json()["remotes"]
        assert [header["name"] for header in remote.get("headers", [])] == (["Authorization"] if guard == "key" else [])
        assert "let-me-in" not in client.http.get(CARD).text


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("mcp.example.com:8443", "com.example.mcp/template-mcp"),
        ("127.0.0.1:8000", "127.0.0.1/template-mcp"),
        ("[::1]:8000", "localhost/template-mcp"),
        ("[1]", "localhost/template-mcp"),
        ("[:]:80", "localhost/template-mcp"),
        ("a b<script>", "localhost/template-mcp"),
    ],
)
def test_without_a_public_url_the_host_of_the_request_counts(host: str, name: str) -> None:
    """A valid Host header is the address. The name of the card is always valid."""
    with served(weather(), mcp_name="template-mcp", allowed_hosts="*") as client:
        answer = client.http.get(CARD, headers={"Host": host})
    reply = answer.json()
    assert answer.headers["cache-control"] == "no-store"
    assert reply["name"] == name
    assert "<" not in str(reply)


def test_the_name_can_be_set_and_the_card_switched_off() -> None:
    """`SERVER_CARD_NAME` is the name in catalogs, and must be a valid one. `SERVER_CARD=false` removes both routes."""
    with served(weather(), server_card_name="io.github.ada/weather", mcp_path="/agents") as client:
        card = client.http.get("/agents/server-card").json()
        assert card["name"] == "io.github.ada/weather"
        assert card["remotes"][0]["url"].endswith("/agents")
        assert client.http.get(CATALOG).json()["entries"][0]["identifier"].endswith(":weather")
    with served(weather(), server_card=False) as client:
        assert client.http.get(CARD).status_code == client.http.get(CATALOG).status_code == 404
    with pytest.raises(ValidationError, match="server_card_name"):
        Settings(server_card_name="weather")


def test_a_card_has_a_description_of_at_most_100_characters() -> None:
    """A long first line of the instructions is cut, and a server without instructions has a description, too."""
    with served(FastMCP("a", instructions="word " * 50)) as client:
        assert len(client.http.get(CARD).json()["description"]) <= 100
    with served(FastMCP("a")) as client:
        assert client.http.get(CARD).json()["description"] == "An MCP server."


def registry_command() -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the settings of the command in the guide."""
    guide = ROOT / "docs" / "guides" / "clients.md"
    (text,) = [block.text for block in blocks("bash") if block.page == guide and "--registry" in block.text]
    words = shlex.split(text.partition(">")[0])
    place = words.index("-m")
    return words[place + 2 :], dict(word.split("=", 1) for word in words[: place - 1])


def test_the_command_of_the_guide_prints_the_file_of_the_registry() -> None:
    """`check --registry` prints a `server.json` of the schema 2025-12-11, and nothing else."""
    arguments, settings = registry_command()
    done = start(*arguments, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    entry = json.loads(done.stdout)
    assert re.fullmatch(r".{1,100}", entry.pop("description"))
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry.pop("version"))
    assert entry == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "com.example/weather",
        "title": "template-mcp",
        "remotes": [{"type": "streamable-http", "url": "https://mcp.example.com/mcp"}],
    }


def test_the_file_of_the_registry_has_what_the_author_publishes(tmp_path: Path) -> None:
    """It has the description also if callers need a key, which it names without its value."""
    file = tmp_path / "weather.py"
    file.write_text(
        "from fastmcp import FastMCP\n"
        'mcp = FastMCP("Weather", version="1.4.0", instructions="Forecasts.\\nAsk.", website_url="https://example.com")\n'
    )
    settings = {"PUBLIC_URL": "https://mcp.example.com/api", "AUTH_ENABLED": "true", "AUTH_TOKEN": "let-me-in"}
    done = start("check", str(file), "--registry", **settings)
    assert "let-me-in" not in done.stdout
    entry = json.loads(done.stdout)
    assert (entry["description"], entry["version"]) == ("Forecasts.", "1.4.0")
    assert (entry["title"], entry["websiteUrl"]) == ("Weather", "https://example.com")
    (remote,) = entry["remotes"]
    assert remote["url"] == "https://mcp.example.com/api/mcp"
    assert [(header["name"], header["isRequired"], header["isSecret"]) for header in remote["headers"]] == [
        ("Authorization", True, True)
    ]


def test_a_registry_needs_the_address_of_the_server() -> None:
    """Without `PUBLIC_URL`, one line says what is missing."""
    done = start("check", "--registry")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "PUBLIC_URL: a registry needs the URL at which clients reach this server" in done.stderr
    assert done.stderr.count("\n") == 1

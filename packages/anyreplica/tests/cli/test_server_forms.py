"""The forms in which a command takes its server: those of `fastmcp run`."""

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from anyreplica.cli.main import APP
from anyreplica.cli.source import Configured, configured
from conftest import StartServer
from tests.calls import HEADERS, call, modern, request
from tests.starts import start

_SERVER = """
import os
import sys

from fastmcp import FastMCP

mcp = FastMCP("My shop")
own = " ".join(sys.argv[1:])


@mcp.tool
def price(item: str) -> str:
    'Return a price.'
    return f"{item}: {os.environ.get('CURRENCY', 'EUR')} {own}"


other = FastMCP("Other")


@other.tool
def hello() -> str:
    'Greet.'
    return "hello"


def factory():
    return other


async def later():
    return other


def wrong():
    return 7


def needing(city):
    return other


def serving():
    other.run()


class Thing: ...
thing = Thing()
"""
_LOW = """
from mcp.server import Server
from mcp.server.stdio import stdio_server

async def serve():
    server = Server("low")
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
"""
_INVALID = """{"source": {"path": "shop.py", "entrypoint": 7}}"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of a FastMCP user, and with a package that has the same code."""
    (tmp_path / "shop.py").write_text(_SERVER)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "module.py").write_text(_SERVER)
    return tmp_path


def check(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run `anyreplica check` in the folder."""
    return start("check", *arguments, app=APP, folder=str(folder), **settings)


@pytest.mark.parametrize(
    ("server", "name", "tool"),
    [
        ("shop.py", "My-shop", "price"),
        ("./shop.py:mcp", "My-shop", "price"),
        ("shop.py:factory", "Other", "hello"),
        ("shop.py:later", "Other", "hello"),
        ("package.module:mcp", "My-shop", "price"),
        ("package.module:factory", "Other", "hello"),
        ("package.module", "My-shop", "price"),
    ],
)
def test_a_file_or_module_is_a_server(folder: Path, server: str, name: str, tool: str) -> None:
    """A server is named by its file or module, and by the name of the object or of a function that returns it."""
    done = check(folder, server)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{name} (anyreplica 0.2.0): settings and components are valid.\ntools      {tool}\n"


def test_a_file_does_not_hide_its_package(folder: Path) -> None:
    """A file may import its package, also if both have the same name, as in the template."""
    (folder / "package" / "package.py").write_text("from package.module import mcp")
    done = check(folder, "package/package.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("My-shop ")


def test_settings_apply_to_any_server(folder: Path) -> None:
    """MCP_NAME replaces the name, and MCP_COMPONENTS adds packs to the server."""
    (folder / "pack.py").write_text(
        "from fastmcp.tools import tool\n\n@tool\ndef more() -> int:\n    'More.'\n    return 1\n"
    )
    done = check(folder, "shop.py", MCP_NAME="store", MCP_COMPONENTS="pack", PYTHONPATH=str(folder))
    assert done.stdout == "store (anyreplica 0.2.0): settings and components are valid.\ntools      more, price\n"


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("none.py", "none.py: no such file"),
        ("shop.py:none", "shop.py:none: shop.py has no 'none'"),
        ("shop.py:thing", "shop.py:thing: this is a server_module.Thing; it must be a FastMCP server, or an"),
        ("shop.py:wrong", "shop.py:wrong: this is a builtins.int; it must be a FastMCP server, or an MCPServer"),
        ("shop.py:needing", "shop.py:needing: missing a required argument: 'city'; name a function without parameters"),
        ("shop.py:serving", "shop.py:serving: this code runs a server itself; name the server, or a function"),
        ("low.py:serve", "low.py:serve: this code runs a server itself; name the server, or a function"),
        ("running.py", "running.py: this code runs a server itself; name the server, or a function"),
        ("empty.py", "empty.py: no server has one of the names mcp, server, app; write empty.py:NAME"),
        ("other.py", "other.py: no server has one of the names mcp, server, app (mcp is a server_module.Shop); write "),
        ("broken.py", "broken.py:2: ZeroDivisionError: division by zero"),
        ("unwritten.py", "unwritten.py:1: invalid syntax"),
        ("nowhere:mcp", "nowhere:mcp: ModuleNotFoundError: No module named 'nowhere'"),
        ("none.json", "none.json: No such file or directory"),
        ("list.json", "list.json: must be a JSON object at the top level"),
        ("text.json", "text.json: not valid JSON: "),
        ("invalid.json", "invalid.json: source.entrypoint: Input should be a valid string"),
        ("sse.json", "sse.json: deployment.transport: sse is not supported"),
    ],
)
def test_a_server_that_cannot_be_served_is_one_line(folder: Path, server: str, told: str) -> None:
    """The line names the file and the reason, and the exit code is 3."""
    source = {"path": "shop.py"}
    for name, text in {
        "empty.py": "x = 1\n",
        "broken.py": "\n1 / 0\n",
        "unwritten.py": "a b\n",
        "low.py": _LOW,
        "running.py": "from mcp.server.mcpserver import MCPServer\nmcp = MCPServer('m')\nmcp.run()\n",
        "other.py": "class Shop: ...\nmcp = Shop()\n",
        "list.json": "[]",
        "text.json": "{",
        "invalid.json": _INVALID,
        "sse.json": json.dumps({"source": source, "deployment": {"transport": "sse"}}),
    }.items():
        (folder / name).write_text(text)
    done = check(folder, server)
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert told in line


def test_fastmcp_json_is_served_on_several_replicas(folder: Path, start_server: StartServer) -> None:
    """Each replica gets the environment variables and the arguments of the file."""
    deployment = {"env": {"CURRENCY": "${COIN}"}, "args": ["--today", "1"], "cwd": "."}
    config = {"source": {"path": "shop.py"}, "environment": {"dependencies": ["pandas"]}, "deployment": deployment}
    (folder / "fastmcp.json").write_text(json.dumps(config))
    command = ("-m", "anyreplica", "run", str(folder / "fastmcp.json"), "--replicas", "2")
    server = start_server(command=command, COIN="CHF")
    server.wait_ready()
    assert call(server.url, "price", {"item": "tea"})["structuredContent"] == {"result": "tea: CHF --today 1"}
    assert "environment is ignored; the server uses the packages of this Python." in server.output
    reply = modern(server.url, "tools/call", {"name": "price", "arguments": {"item": "x"}}, **{"Mcp-Name": "price"})
    assert reply.json()["result"]["structuredContent"] == {"result": "x: CHF --today 1"}


def test_the_address_of_fastmcp_json_is_a_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP_PORT, MCP_HOST, MCP_PATH and LOG_LEVEL win over the file."""
    deployment = {"port": 4242, "host": "0.0.0.0", "path": "/agents", "log_level": "WARNING"}
    (folder / "fastmcp.json").write_text(json.dumps({"source": {"path": "shop.py"}, "deployment": deployment}))
    monkeypatch.setenv("MCP_PORT", "1234")
    names = ("MCP_HOST", "MCP_PATH", "LOG_LEVEL")
    for name in names:
        monkeypatch.setenv(name, "")  # so that the end of the test restores it
        monkeypatch.delenv(name)
    found = configured(folder / "fastmcp.json")
    assert found == Configured(str(folder / "shop.py"), ())
    assert [os.environ[name] for name in ("MCP_PORT", *names)] == ["1234", "0.0.0.0", "/agents", "WARNING"]


@pytest.mark.parametrize("operator", [None, "/team"])
def test_the_path_of_fastmcp_json_is_a_default(folder: Path, start_server: StartServer, operator: str | None) -> None:
    """The replicas answer at the path of the file, or at MCP_PATH if it is set, and nowhere else."""
    config = {"source": {"path": "shop.py"}, "deployment": {"path": "/agents"}}
    (folder / "fastmcp.json").write_text(json.dumps(config))
    settings = {"MCP_PATH": operator} if operator else {}
    command = ("-m", "anyreplica", "run", str(folder / "fastmcp.json"), "--replicas", "2")
    server = start_server(command=command, **settings)
    server.wait_ready()
    asked = request("tools/call", {"name": "price", "arguments": {"item": "tea"}})
    for path in ("/agents", "/team", "/mcp"):
        reply = httpx.post(f"{server.url}{path}", json=asked, headers=HEADERS)
        assert reply.status_code == (200 if path == (operator or "/agents") else 404)
        assert reply.status_code == 404 or "tea: EUR" in reply.text


def test_fastmcp_json_of_the_working_directory_is_the_default(folder: Path) -> None:
    """Without SERVER, a folder without the template serves its fastmcp.json."""
    (folder / "fastmcp.json").write_text(json.dumps({"source": {"path": "shop.py", "entrypoint": "other"}}))
    done = check(folder)
    assert done.stdout == "Other (anyreplica 0.2.0): settings and components are valid.\ntools      hello\n"


def test_arguments_after_two_dashes_belong_to_the_server(folder: Path, start_server: StartServer) -> None:
    """As with `fastmcp run`, the server's code finds them in `sys.argv`."""
    server = start_server(command=("-m", "anyreplica", "run", str(folder / "shop.py"), "--", "--mine", "2"))
    server.wait_ready()
    assert call(server.url, "price", {"item": "tea"})["structuredContent"] == {"result": "tea: EUR --mine 2"}


@pytest.mark.parametrize("form", ["URL", "mcpServers"])
def test_other_servers_are_served_through_a_proxy(folder: Path, start_server: StartServer, form: str) -> None:
    """The URL of an MCP server, and a file with `mcpServers`, become a proxy."""
    behind = start_server()
    behind.wait_ready()
    url = f"{behind.url}/mcp"
    server = url
    if form == "mcpServers":
        server = str(folder / "client.json")
        Path(server).write_text(json.dumps({"mcpServers": {"sample": {"url": url}}}))
    proxy = start_server(command=("-m", "anyreplica", "run", server))
    proxy.wait_ready()
    assert call(proxy.url, "echo", {"message": "hi"})["structuredContent"] == {"result": "hi"}

"""Tests that a server whose parts cannot all be served does not start, and that `check` says the same."""

from pathlib import Path

import pytest

from conftest import free_port
from tests.starts import start

SERVER = "from fastmcp import FastMCP\nmcp = FastMCP('served')\n"


def refused(folder: Path, server: str, *, logged: bool = False, **settings: str) -> str:
    """Start a server and check it. Both must fail with the same single line, which this function returns.

    Args:
        logged: whether FastMCP itself logs the reason before this line.
    """
    (folder / "server.py").write_text(server)
    said = []
    for command in ("run", "check"):
        given = {"PYTHONPATH": str(folder), "MCP_PORT": str(free_port()), **settings}
        done = start(command, str(folder / "server.py"), **given)
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        *before, last = done.stderr.splitlines()
        assert logged or not before, done.stderr
        said.append(last.replace(f"{folder}/", ""))
    assert said[0] == said[1]
    return said[0]


PARTS = {
    "FastMCP server": "from fastmcp import FastMCP\npart = FastMCP('forgotten')\n",
    "SessionProvider": "from fastmcp.server.sessions import SessionProvider\npart = SessionProvider()\n",
    "Namespace": "from fastmcp.server.transforms import Namespace\npart = Namespace('forgotten')\n",
    "TasksExtension": "from fastmcp_tasks import TasksExtension\npart = TasksExtension()\n",
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_that_no_server_uses(tmp_path: Path, kind: str) -> None:
    """A part of a FastMCP server in a discovered module stops the start if no server uses it."""
    (tmp_path / "pack.py").write_text(PARTS[kind])
    said = refused(tmp_path, SERVER, MCP_COMPONENTS="pack")
    assert said.startswith(f"pack.py: part: this {kind} is not served, because no server uses it; ")


def test_a_file_that_cannot_be_imported(tmp_path: Path) -> None:
    """A file of a `FileSystemProvider` that cannot be imported stops the start, also in a mounted server."""
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "broken.py").write_text("import no_such_module\n")
    server = f"""{SERVER}
from fastmcp.server.providers import FileSystemProvider
mcp.mount(FastMCP('mounted', providers=[FileSystemProvider({str(tmp_path / "found")!r})]))
"""
    said = refused(tmp_path, server, logged=True)
    assert said.startswith("found/broken.py: ")
    assert said.endswith("No module named 'no_such_module'")


ROUTE = """
@mcp.custom_route('/healthz', methods=['GET'])
async def route(request): ...
"""
MOVE = "set another path for it, for example LIVENESS_PATH=/livez"
LIFESPAN = """
from fastmcp.server.lifespan import lifespan
@lifespan
async def database(server):
    raise RuntimeError('no database')
    yield {}
mcp.mount(FastMCP('mounted', lifespan=database))
"""
EXTENSION = """
from contextlib import asynccontextmanager
from fastmcp.server.extensions import ServerExtension
class Queue(ServerExtension):
    identifier = 'com.example/queue'
    @asynccontextmanager
    async def lifespan(self):
        raise RuntimeError('no queue')
        yield
mcp.add_extension(Queue())
"""
TRANSFORM = """
from fastmcp.server.transforms import ToolTransform
from fastmcp.tools.tool_transform import ArgTransformConfig, ToolTransformConfig
mcp.add_transform(ToolTransform({'one': ToolTransformConfig(arguments={'no': ArgTransformConfig(name='z')})}))
@mcp.tool
def one() -> int: return 1
"""


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (LIFESPAN, "Start failed: RuntimeError: no database (server.py:7; "),
        (EXTENSION, "Start failed: RuntimeError: no queue (server.py:10; "),
        (TRANSFORM, "Start failed: ValueError: Unknown arguments in transform_args: no."),
        (ROUTE, f"custom_route /healthz: the liveness probe has this path; {MOVE}"),
    ],
    ids=["lifespan", "extension", "transform", "custom route at the path of a probe"],
)
def test_an_error_at_the_start(tmp_path: Path, code: str, reason: str) -> None:
    """An error of a lifespan, an extension, a transform or a custom route stops the start with one line."""
    assert refused(tmp_path, SERVER + code).startswith(reason)

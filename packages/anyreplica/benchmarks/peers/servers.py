"""The servers that are compared, and how each of them starts."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.build import Kit
from benchmarks.peers.toolchains import GO, MCP_USE, RUST, TMCP, TYPESCRIPT
from benchmarks.process import CORES, Process, Program, free_port, replica
from benchmarks.wire import Family

FLOOR, OURS, GO_SDK = "floor", "ours", "go"
_BOTH = (Family.HANDSHAKE, Family.STATELESS)


@dataclass(frozen=True)
class Server:
    """A server that answers calls of the echo."""

    name: str
    title: str
    start: Callable[[int | None, Path], Process]
    """Function that starts the server on a core, or on all cores (None), with a folder for its log.

    Raises:
        NotBuilt: A tool is missing.
    """
    families: tuple[Family, ...] = _BOTH
    """Protocol families that are measured."""
    kit: Kit | None = None
    """Build of the server."""


class _Foreign(Process):
    """A program of another language that listens on `MCP_PORT` and answers `/readyz`."""

    runs_in_folder = True  # mcp-use writes a file of its own

    def __init__(self, *command: str, core: int | None, folder: Path, **settings: str) -> None:
        port = free_port()
        Program.__init__(self, *command, port=port, core=core, folder=folder, MCP_PORT=str(port), **settings)


def _built(kit: Kit, *command: str, threads: str = "", **settings: str) -> Callable[[int | None, Path], Process]:
    """Return a function that starts a built server.

    Args:
        kit: The build.
        command: The command line. `{}` is the folder of the build.
        threads: The variable with the number of cores that the server uses. Empty: it uses one core in any case.
        settings: Further environment variables.
    """

    def start(core: int | None, folder: Path) -> Process:
        words = [word.format(kit.folder) for word in command]
        cores = {threads: _cores(core)} if threads else {}
        return _Foreign(*words, core=core, folder=folder, **settings, **cores)

    return start


def _module(name: str) -> Callable[[int | None, Path], Process]:
    return lambda core, folder: Process(name, core=core, folder=folder)


def _node(kit: Kit, file: str) -> Callable[[int | None, Path], Process]:
    return _built(kit, "node", f"{{}}/{file}", NODE_ENV="production")


def _cores(core: int | None) -> str:
    """Return how many cores a server may use: one, or all."""
    return str(len(CORES)) if core is None else "1"


SERVERS = (
    Server(FLOOR, "floor: bare ASGI, orjson", _module("benchmarks.floor"), families=(Family.HANDSHAKE,)),
    Server(OURS, "this template", lambda core, folder: replica("echo", core, folder, WORKERS=_cores(core))),
    Server("rust", "Rust SDK (rmcp)", _built(RUST, "{}/target/release/peer", threads="PEER_THREADS"), kit=RUST),
    # Go counts the cores at its start, before its process is limited to one core.
    Server(GO_SDK, "Go SDK", _built(GO, "{}/peer", threads="GOMAXPROCS"), kit=GO),
    Server("ts2", "TypeScript SDK v2", _node(TYPESCRIPT, "v2.mjs"), kit=TYPESCRIPT),
    Server("ts1", "TypeScript SDK v1", _node(TYPESCRIPT, "v1.mjs"), families=(Family.HANDSHAKE,), kit=TYPESCRIPT),
    # Both answer with event streams: tmcp always, mcp-use in the handshake protocol.
    Server("tmcp", "tmcp", _node(TMCP, "main.mjs"), kit=TMCP),
    Server("mcp-use", "mcp-use v2", _node(MCP_USE, "main.mjs"), kit=MCP_USE),
    Server("fastmcp", "FastMCP without this project", _module("benchmarks.peers.stock")),
)

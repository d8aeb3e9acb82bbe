"""What is held side by side, and how each of them is started."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peer.kit import Kit
from benchmarks.peer.toolchains import GO, RUST, TYPESCRIPT
from benchmarks.plan import Plan
from benchmarks.process import Process, Program, free_port
from benchmarks.wire import Family

FLOOR, OURS, GO_SDK = "floor", "ours", "go"
BOTH = (Family.HANDSHAKE, Family.STATELESS)


@dataclass(frozen=True)
class Server:
    """One that answers calls of the echo."""

    name: str
    """As `--only` has it."""
    title: str
    start: Callable[[int, Path], Process]
    """Starts it on a core, with a folder for its log.

    Raises:
        NotBuilt: what it is built with is missing.
    """
    families: tuple[Family, ...] = BOTH
    """Those that its SDK knows, or for the floor the one that it is measured in."""
    kit: Kit | None = None
    """What has to be built first."""


class _Foreign(Process):
    """A program of another language that listens on `MCP_PORT` and answers `/readyz`."""

    def __init__(self, *command: str, core: int, folder: Path, **settings: str) -> None:
        port = free_port()
        Program.__init__(self, *command, port=port, core=core, folder=folder, MCP_PORT=str(port), **settings)


def _of_this_project(pack: str) -> Callable[[int, Path], Process]:
    def start(core: int, folder: Path) -> Process:
        plan = Plan(rounds=1, seconds=1, starts=1, calls=1, core=core, log_level="INFO", folder=folder)
        return plan.serve(pack)

    return start


def _built(kit: Kit, *command: str, **settings: str) -> Callable[[int, Path], Process]:
    def start(core: int, folder: Path) -> Process:
        words = [word.format(kit.folder) for word in command]
        return _Foreign(*words, core=core, folder=folder, **settings)

    return start


SERVERS = (
    Server(FLOOR, "floor: bare ASGI, orjson", _of_this_project(""), families=(Family.HANDSHAKE,)),
    Server(OURS, "this template", _of_this_project("echo")),
    Server("rust", "Rust SDK (rmcp)", _built(RUST, "{}/peer"), kit=RUST),
    # A process of one core: Go counts the cores when it starts, which is before it is told of its own.
    Server(GO_SDK, "Go SDK", _built(GO, "{}/peer", GOMAXPROCS="1"), kit=GO),
    Server("ts2", "TypeScript SDK v2", _built(TYPESCRIPT, "node", "{}/v2.mjs", NODE_ENV="production"), kit=TYPESCRIPT),
    Server(
        "ts1",
        "TypeScript SDK v1",
        _built(TYPESCRIPT, "node", "{}/v1.mjs", NODE_ENV="production"),
        families=(Family.HANDSHAKE,),
        kit=TYPESCRIPT,
    ),
    Server(
        "fastmcp",
        "FastMCP as it comes",
        lambda core, folder: Process("benchmarks.peer.stock", core=core, folder=folder),
    ),
)


def choose(text: str) -> list[Server]:
    """The servers of these names, separated by commas, and the floor, which all are compared with.

    Raises:
        ValueError: a name that is none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [server.name for server in SERVERS]
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return [server for server in SERVERS if server.name in (FLOOR, *names)]


def kits_of(servers: Sequence[Server]) -> list[Kit]:
    """What they are built with, each once."""
    return list(dict.fromkeys(server.kit for server in servers if server.kit))

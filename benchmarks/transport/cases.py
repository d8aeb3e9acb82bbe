"""The transports, in both families of the protocol."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.transport.in_memory import InMemory
from benchmarks.transport.over_http import over_tcp, over_unix
from benchmarks.transport.over_stdio import OverStdio
from benchmarks.transport.place import Place
from benchmarks.wire import Family


@dataclass(frozen=True)
class Transport:
    """One way for a message from a client to a server."""

    name: str
    title: str
    open: Callable[[int, Path], AbstractContextManager[Place]]
    """On a CPU core, with a folder for files."""
    alone: bool = True
    """Whether a client that is connected is like no other's; one kind of stdio is then like the other."""


TRANSPORTS = (
    Transport("memory", "in memory", lambda _core, _folder: nullcontext(InMemory())),
    Transport(
        "stdio-fresh",
        "stdio, a process for each client",
        lambda core, folder: OverStdio(core, folder, shared=False),
        alone=False,
    ),
    Transport("stdio-kept", "stdio, one process kept", lambda core, folder: OverStdio(core, folder, shared=True)),
    Transport("tcp-stock", "Streamable HTTP, TCP, FastMCP's server", partial(over_tcp, module="benchmarks.peer.stock")),
    Transport("tcp", "Streamable HTTP, TCP", over_tcp),
    Transport("unix", "Streamable HTTP, Unix socket", over_unix),
)


@dataclass(frozen=True)
class Case:
    """A transport in a family."""

    transport: Transport
    family: Family

    @property
    def name(self) -> str:
        """For machines."""
        return f"{self.transport.name}-{self.family.value}"

    @property
    def whole(self) -> bool:
        """Whether sizes and other clients are measured, too: once for each that differs."""
        return self.transport.alone and self.family is Family.HANDSHAKE


CASES = [Case(transport, family) for family in Family for transport in TRANSPORTS]

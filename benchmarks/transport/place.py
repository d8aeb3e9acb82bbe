"""Where the clients of a transport find a server."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import fastmcp
from mcp import Client

from benchmarks.process import cpu_seconds_of
from benchmarks.transport.by_hand import ByHand
from benchmarks.wire import Family

MODES = {Family.HANDSHAKE: "legacy", Family.STATELESS: "auto"}
"""How a client is told to speak a family; `auto`, which is what it does if told nothing, asks the server first."""


class Place(ABC):
    """A server that runs, or one that each client starts."""

    started = 0.0
    """Seconds that the server took until it served, before the first client came."""

    shared = False
    """Whether all callers share one client, and with it one server process."""

    @abstractmethod
    def client(self, family: Family) -> Client:
        """The official SDK's client, not yet connected."""

    @abstractmethod
    def fastmcp_client(self, family: Family) -> "fastmcp.Client[Any]":
        """FastMCP's client, not yet connected."""

    @abstractmethod
    def by_hand(self, family: Family) -> AbstractAsyncContextManager[ByHand] | None:
        """A connection without a client; None where nothing is written."""

    def pids(self) -> Sequence[int]:
        """The processes that serve now."""
        return ()

    def cpu_seconds(self) -> float:
        """User and system time of the processes that serve now, since each was started."""
        return sum(cpu_seconds_of(pid) for pid in self.pids())

    def rss_mb(self) -> float:
        """Resident memory of the processes that serve now in MB (10⁶ bytes); pages that they share count once."""
        found = [_resident(pid) for pid in self.pids()]
        return (sum(private for private, _ in found) + max((shared for _, shared in found), default=0)) * 1024 / 1e6


def _resident(pid: int) -> tuple[int, int]:
    """KiB that only this process has, and KiB that other processes have mapped, too."""
    kibibytes = {"Private": 0, "Shared": 0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        name, _, value = line.partition(":")
        kind, _, state = name.partition("_")
        if kind in kibibytes and state in ("Clean", "Dirty"):
            kibibytes[kind] += int(value.split()[0])
    return kibibytes["Private"], kibibytes["Shared"]

"""Fixtures: hosts that misbehave, and a client for them."""

import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from anyreplica.downstream import Downstream
from anyreplica.features.downstream.hosts import Hosts
from anyreplica.features.downstream.settings import DownstreamSettings
from conftest import ROOT, free_port, until
from tests.calls import get


class Misbehaving:
    """A process that misbehaves as a host; when it is stopped, the host refuses connections."""

    def __init__(self) -> None:
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, path: str) -> str:
        """Return the URL of a path, which says how the host behaves."""
        return f"http://{self.host}{path}"

    def start(self) -> None:
        """Start the process unless it runs, and wait until it listens."""
        if self.process is not None:
            return
        command = [sys.executable, "-m", "tests.downstream.misbehaving", str(self.port)]
        self.process = subprocess.Popen(command, cwd=ROOT)

        def listens() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            return False

        until(listens, "the misbehaving server listens")

    def stop(self) -> None:
        """Stop the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Freeze the process: the kernel accepts connections, but nothing answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def seen(self, path: str) -> int:
        """Return the number of requests for a path, or for "at once" the maximum number at the same time."""
        count: int = get(self.url("/seen")).json().get(path, 0)
        return count


@pytest.fixture(scope="session")
def _hosts() -> Iterator[list[Misbehaving]]:
    hosts = [Misbehaving(), Misbehaving()]
    yield hosts
    for host in hosts:
        host.stop()


def _fresh(host: Misbehaving) -> Misbehaving:
    host.start()
    get(host.url("/forget"))
    return host


@pytest.fixture
def host(_hosts: list[Misbehaving]) -> Misbehaving:
    """A running host that misbehaves; a test may stop it."""
    return _fresh(_hosts[0])


@pytest.fixture
def other(_hosts: list[Misbehaving]) -> Misbehaving:
    """A second host that misbehaves."""
    return _fresh(_hosts[1])


@asynccontextmanager
async def opened(**settings: float) -> AsyncIterator[tuple[Downstream, Hosts]]:
    """Open a client of APIs with these settings, whose names are without `downstream_`. Yield it and its hosts."""
    hosts = Hosts(DownstreamSettings.model_validate({f"downstream_{name}": each for name, each in settings.items()}))
    downstream = Downstream(hosts)
    try:
        yield downstream, hosts
    finally:
        await downstream.close()


@pytest.fixture(autouse=True)
def _without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

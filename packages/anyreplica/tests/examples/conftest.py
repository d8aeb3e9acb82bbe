"""Fixtures: the example packs, with data that they must not reach."""

import asyncio
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import validate_call

from anyreplica import downstream
from anyreplica.features.downstream.settings import DownstreamSettings
from anyreplica.settings.errors import StartupError
from tests.examples.upstream import TOKEN, Gateway

SECRET = "hunter2 is outside"
LONG = "aé€😀\n" * 20_000


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the folder `root`, links out of `root`, and files outside that must not be read."""
    top = tmp_path_factory.mktemp("top")
    files = {"root/a.txt": "alpha\nBeta\n", "root/long.txt": LONG, "root/docs/deep/b ü%2e.txt": "beta"}
    files |= {"root/docs/..name": "gamma", "root/back\\slash": "delta", "root/.hidden": "BETA"}
    files |= dict.fromkeys(("outside/secret.txt", "outside/a.txt", "root-secret/a.txt", "secret.txt"), SECRET)
    for name, content in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(content)
    (top / "root/binary").write_bytes(b"\x00\xff")
    (top / os.fsdecode(b"root/docs/not-utf-8-\xff")).write_text("epsilon")
    os.mkfifo(top / "root/fifo")
    links = {"file": "../secret.txt", "folder": "../outside", "absolute": str(top / "outside"), "up": ".."}
    links |= {"inside": "docs", "docs/link": "../../outside", "disk": "/proc/self/root", "loop": "loop"}
    for name, target in links.items():
        (top / "root" / name).symlink_to(target)
    return top


@contextmanager
def imported(pack: str, **variables: str) -> Iterator[ModuleType]:
    """Import the tools of a pack again, because they read environment variables when they are imported."""
    name = f"examples.{pack}.tools"
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in variables.items():
            patch.setenv(variable, value)
        sys.modules.pop(name, None)
        try:
            yield importlib.import_module(name)
        finally:
            sys.modules.pop(name, None)


def refused_start(pack: str, why: str, **variables: str) -> None:
    """Check that a pack stops the start because of a variable. The error is short and shows no password."""
    with pytest.raises(StartupError, match=why) as error, imported(pack, **variables):
        pass
    assert "hunter2" not in str(error.value)
    assert len(str(error.value)) < 300


class Pack:
    """A pack and its event loop."""

    def __init__(self, runner: asyncio.Runner, module: ModuleType) -> None:
        self.runner = runner
        self.module = module

    def ask(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, with the argument checks of the server, and return the result."""
        return self.runner.run(validate_call(getattr(self.module, tool))(**arguments))


@pytest.fixture(scope="module")
def files(top: Path) -> Iterator[ModuleType]:
    """The pack `examples.files` for the folder `root`."""
    with imported("files", FILES_ROOT=str(top / "root")) as module:
        yield module


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """The pack `examples.gateway` for an API that runs in this process."""
    with asyncio.Runner() as runner:
        gateway = Gateway(runner)
        servers = [runner.run(server.start()) for server in (gateway.upstream, gateway.elsewhere)]
        apis, tokens = f"{gateway.base}/, http://{gateway.upstream.host}/v1/open", f"{gateway.base}/ {TOKEN}"
        with imported("gateway", GATEWAY_APIS=apis, GATEWAY_TOKENS=tokens) as gateway.module:
            # Other tests cover retries and the circuit breaker.
            given = {"downstream_retries": 0, "downstream_breaker_failures": 1_000_000, "downstream_concurrency": 100}
            downstream.configure(DownstreamSettings.model_validate(given))
            yield gateway
        downstream.configure(DownstreamSettings.model_construct())
        runner.run(downstream.close())
        for server in servers:
            server.close()
            runner.run(asyncio.wait_for(server.wait_closed(), 5))

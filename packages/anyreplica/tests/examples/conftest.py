"""Fixtures: the example packs, with data that they must not reach."""

import asyncio
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from anyreplica import downstream
from anyreplica.settings.downstream import DownstreamSettings
from tests.examples.upstream import TOKEN, Gateway

SECRET = "hunter2 is outside"
LONG = "aé€😀\n" * 20_000


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the folder `root`, links out of `root`, and files outside that must not be read."""
    top = tmp_path_factory.mktemp("top")
    for name, content in {
        "root/a.txt": "alpha\nBeta\n",
        "root/long.txt": LONG,
        "root/docs/deep/b ü%2e.txt": "beta",
        "root/docs/..name": "gamma",
        "root/back\\slash": "delta",
        "root/.hidden": "BETA",
        "outside/secret.txt": SECRET,
        "outside/a.txt": SECRET,
        "root-secret/a.txt": SECRET,
        "secret.txt": SECRET,
    }.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(content)
    (top / "root/binary").write_bytes(b"\x00\xff")
    (top / os.fsdecode(b"root/docs/not-utf-8-\xff")).write_text("epsilon")
    os.mkfifo(top / "root/fifo")
    for name, target in {
        "file": "../secret.txt",
        "folder": "../outside",
        "absolute": str(top / "outside"),
        "up": "..",
        "inside": "docs",
        "docs/link": "../../outside",
        "disk": "/proc/self/root",
        "loop": "loop",
    }.items():
        (top / "root" / name).symlink_to(target)
    return top


@pytest.fixture(scope="module")
def files(top: Path) -> Iterator[ModuleType]:
    """The pack `examples.files` for the folder `root`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FILES_ROOT", str(top / "root"))
        yield importlib.import_module("examples.files.tools")
    del sys.modules["examples.files.tools"]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """The pack `examples.gateway` for an API that runs in this process."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        gateway = Gateway(runner)
        servers = [runner.run(server.start()) for server in (gateway.upstream, gateway.elsewhere)]
        patch.setenv("GATEWAY_APIS", f"{gateway.base}/, http://{gateway.upstream.host}/v1/open")
        patch.setenv("GATEWAY_TOKENS", f"{gateway.base}/ {TOKEN}")
        gateway.module = importlib.import_module("examples.gateway.tools")
        # Other tests cover retries and the circuit breaker.
        given = {"downstream_retries": 0, "downstream_breaker_failures": 1_000_000, "downstream_concurrency": 100}
        downstream.configure(DownstreamSettings.model_validate(given))
        yield gateway
        downstream.configure(DownstreamSettings.model_construct())
        runner.run(downstream.close())
        for server in servers:
            server.close()
            runner.run(asyncio.wait_for(server.wait_closed(), 5))
    del sys.modules["examples.gateway.tools"]

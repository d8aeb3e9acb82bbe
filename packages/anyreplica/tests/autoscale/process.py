"""The autoscaler as a process."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from conftest import ROOT, environment, free_port
from tests.autoscale.engine import Engine

TOKEN = "a-token-of-the-metrics"


@contextlib.contextmanager
def autoscaling(
    engine: Engine, log: Path, *options: str, token: str = TOKEN
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the command beside the engine. Yields the process and the URL of its probes and metrics."""
    port = free_port()
    command = [sys.executable, "-m", "anyreplica", "autoscale", "--docker", engine.url, *options]
    settings = environment(MCP_PORT=str(port), MCP_HOST="127.0.0.1", METRICS_TOKEN=token, LOG_FORMAT="text")
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd=ROOT, env=settings, stdout=stream, stderr=subprocess.STDOUT)
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()

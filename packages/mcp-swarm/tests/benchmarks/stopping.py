"""Stopping a benchmark in its midst."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

from conftest import ROOT, until


def leaves_nothing(number: signal.Signals, module: str, *arguments: str) -> None:
    """Start a benchmark, send it a signal when it has two processes, and see that it ends, and they with it."""
    command = [sys.executable, "-m", module, *arguments]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        try:
            until(lambda: len(_children(process.pid)) == 2, f"{module} has started two processes")
            servers = _children(process.pid)
            process.send_signal(number)
            assert process.wait(30) == 128 + number
        finally:
            process.kill()
    assert not [server for server in servers if Path(f"/proc/{server}").exists()]


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []

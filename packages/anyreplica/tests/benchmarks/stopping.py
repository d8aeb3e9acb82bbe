"""A study that is stopped while it measures."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

from conftest import ROOT, until


def leaves_nothing(number: signal.Signals, module: str, *arguments: str, processes: int = 2) -> None:
    """Send a signal to a study that has some child processes, and check that all of them end."""
    command = [sys.executable, "-m", module, *arguments]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        try:
            until(lambda: len(_children(process.pid)) == processes, f"{module} has started {processes} processes")
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

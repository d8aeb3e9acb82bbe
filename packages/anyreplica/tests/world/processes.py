"""Programs in environments of their own."""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from os import killpg
from pathlib import Path
from signal import SIGKILL
from typing import Self

import httpx
import pytest

from conftest import environment, until


class Program:
    """A program that serves MCP on a port. It answers inside a `with` block, and ends with it."""

    def __init__(self, command: Sequence[str | Path], folder: Path, log: Path, port: int, **variables: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        with log.open("w") as stream:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env={**environment(), "MCP_COMPONENTS": "", **variables},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        try:
            until(self._answers, f"{self.process.args!r} answers", seconds=120)
        except BaseException:
            print(self.output)
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def output(self) -> str:
        """The text that the program has printed until now."""
        return self.log.read_text(errors="replace")

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            pytest.fail(f"it ended with {self.process.returncode}:\n{self.output}")
        with suppress(httpx.HTTPError):
            return httpx.post(f"{self.url}/mcp", json={}, timeout=30).status_code < 500
        return False

    def stop(self) -> None:
        """End the program and its children."""
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError):
                killpg(self.process.pid, SIGKILL)
            self.process.wait()

"""Run a command line in the process of the test. A new Python process needs more than 2 s to refuse its start."""

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from anyreplica import main
from conftest import ROOT, environment

SAMPLE = "server.server:create_app"


def start(
    *arguments: str, app: str = SAMPLE, folder: str = str(ROOT), given: str = "", fresh: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command line like `conftest.run`, and return its exit code and output.

    If a replica or worker starts, it stops at once, and the exit code is 0. If a supervisor starts, the test fails.

    Args:
        app: the server of a command line that names none.
        folder: the working directory.
        given: the text on stdin.
        fresh: a module that must be imported again, for example because its import reads a setting.
    """
    stdin, stdout, stderr = io.TextIOWrapper(io.BytesIO(given.encode())), io.StringIO(), io.StringIO()
    streams = patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr)
    with streams, _like_a_process(folder, fresh, settings):
        try:
            code: object = main(arguments, app=app)
        except SystemExit as ended:  # argparse refuses the arguments
            code = ended.code
        for handler in logging.getLogger().handlers:
            handler.flush()
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, stdout.getvalue(), stderr.getvalue())


@contextlib.contextmanager
def _like_a_process(folder: str, fresh: str, settings: dict[str, str]) -> Iterator[None]:
    """Inside the block, this process has the state of a new process. After it, it has its former state again."""
    root, added = logging.getLogger(), [folder, settings.get("PYTHONPATH", folder)]
    level, modules = root.level, set(sys.modules)
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with patch.dict(os.environ, environment(**settings), clear=True), pytest.MonkeyPatch.context() as patched:
        patched.setattr(root, "handlers", [])
        patched.setattr(logging.getLogger("uvicorn.error"), "disabled", False)
        patched.setattr(sys, "path", [*added, *sys.path])
        patched.setattr("uvicorn.Server.main_loop", _stop)
        for supervisor in ("uvicorn.supervisors.Multiprocess.run", "uvicorn.run"):
            patched.setattr(supervisor, lambda *_, **__: pytest.fail("the command has started a supervisor"))
        patched.delitem(sys.modules, fresh, raising=False)
        patched.chdir(folder)
        try:
            yield
        finally:
            root.setLevel(level)
            for number, handler in signals.items():
                signal.signal(number, handler)
            for name in sys.modules.keys() - modules:  # another test has other modules with these names
                file = getattr(sys.modules[name], "__file__", None) or ""
                if name == fresh or any(file.startswith(f"{each}/") for each in added if each != str(ROOT)):
                    del sys.modules[name]


async def _stop(_: object) -> None:
    """Return, so that uvicorn stops."""

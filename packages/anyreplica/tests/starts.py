"""Run a command line in the process of the test. A new Python process would take more than 2 s to refuse its start."""

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import pytest

from anyreplica import main
from conftest import ROOT, environment

SAMPLE = "tests.sample.server:create_app"
_SUPERVISORS = ("uvicorn.supervisors.Multiprocess.run", "uvicorn.run")
"""The functions that start other processes. A start that is refused does not reach them."""


def start(
    *arguments: str, app: str = SAMPLE, folder: Path = ROOT, given: str = "", fresh: str = "", **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command line like `python -m tests.sample`, and return its exit code and output.

    If a replica or worker starts, it stops at once, and the exit code is 0. If a supervisor starts, the test fails.

    Args:
        arguments: the command line.
        app: the server of commands that name none.
        folder: the working directory.
        given: the text on stdin.
        fresh: a module that must be imported again, for example because its import reads a setting.
        settings: the environment variables, as for `conftest.run`.
    """
    streams = [io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8", write_through=True) for text in (given, "", "")]
    with _like_a_process(folder, fresh, settings), contextlib.ExitStack() as replaced:
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            replaced.enter_context(patch.object(sys, name, stream))
        try:
            code: Any = main(list(arguments), app=app)
        except SystemExit as ended:  # argparse refuses the arguments
            code = ended.code
        for handler in logging.getLogger().handlers:
            handler.flush()
    output, errors = (stream.buffer.getvalue().decode() for stream in streams[1:])  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(arguments, code, output, errors)


@contextlib.contextmanager
def _like_a_process(folder: Path, fresh: str, settings: dict[str, str]) -> Iterator[None]:
    """Inside the block, this process has the state of a new process. After it, it has its former state again."""
    root, modules, former = logging.getLogger(), set(sys.modules), sys.modules.pop(fresh, None)
    handlers, level = root.handlers, root.level
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    added = [str(folder), *filter(None, [settings.get("PYTHONPATH")])]
    with contextlib.ExitStack() as replaced:
        replaced.enter_context(patch("uvicorn.Server.main_loop", _stop))
        for name in _SUPERVISORS:
            replaced.enter_context(patch(name, _fail))
        replaced.enter_context(patch.object(sys, "path", [*added, *sys.path]))
        replaced.enter_context(patch.dict(os.environ, environment(**settings), clear=True))
        replaced.enter_context(contextlib.chdir(folder))
        root.handlers = []
        try:
            yield
        finally:
            root.handlers = handlers
            root.setLevel(level)
            logging.getLogger("uvicorn.error").disabled = False
            for number, handler in signals.items():
                signal.signal(number, handler)
            for name in sys.modules.keys() - modules:  # the next test has other modules with the same names
                place = getattr(sys.modules[name], "__file__", None) or ""
                if any(Path(place).is_relative_to(each) for each in added if each != str(ROOT)):
                    del sys.modules[name]
            sys.modules.pop(fresh, None)
            sys.modules.update({fresh: former} if former else {})


async def _stop(_: object) -> None:
    """Return, so that uvicorn stops."""


def _fail(*_: object, **__: object) -> NoReturn:
    pytest.fail("the command has started a supervisor")

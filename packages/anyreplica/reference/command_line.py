"""The page that shows the help text of each command."""

import os
import subprocess
import sys
from collections.abc import Sequence

_INTRODUCTION = """\
# Command line

`.venv/bin/python -m server` and `anyreplica` are the same command. The first one is for your clone; the second one is
on the `PATH` of the image. `make up`, `make dev` and `make check` call it for you.

Exit code 3 means that the server cannot start; standard error says why. All commands print their help text with
`--help`.

<!-- This page is generated from the help texts. Edit packages/anyreplica/src/anyreplica/cli and run `make reference`.
-->
"""

COMMANDS: tuple[tuple[str, ...], ...] = (
    (),
    ("run",),
    ("check",),
    ("init",),
    ("worker",),
    ("load",),
    ("install",),
    ("deploy",),
    ("autoscale",),
    ("keys",),
    ("keys", "new"),
    ("keys", "hash"),
    ("keys", "check"),
    ("audit",),
    ("audit", "verify"),
)
_WIDTH = "100"
"""Characters per line of the help texts."""


def page() -> str:
    """Return the page as Markdown."""
    sections = (f"## {_title(command)}\n\n```text\n{_help(command)}\n```\n" for command in COMMANDS)
    return "\n".join([_INTRODUCTION, *sections])


def _title(command: Sequence[str]) -> str:
    return " ".join(("anyreplica", *command))


def _help(command: Sequence[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "anyreplica", *command, "--help"],
        env={**os.environ, "COLUMNS": _WIDTH, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.rstrip()

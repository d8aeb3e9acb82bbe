"""Tests that both paths log a call with the same text."""

import logging
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from anyreplica.process.logs import _CHATTY
from tests.calls import VERSION
from tests.mcp.paths.asked import HANDSHAKE, WARNINGS, called
from tests.mcp.paths.both import Pair
from tests.mcp.paths.tools import ARGUMENTS, FAILING, PLAIN, UNUSUAL, VALID

pytestmark = WARNINGS


@dataclass(frozen=True)
class Logged:
    """A log line without its time."""

    logger: str
    level: str
    text: str
    raised: str
    """The exception whose traceback the line contains, and the source line that raised it."""


def logged(caplog: pytest.LogCaptureFixture) -> list[Logged]:
    """Return the lines since the last call, filtered as in `anyreplica.process.logs`."""
    records = [record for record in caplog.records if record.name not in _CHATTY or record.levelno >= logging.WARNING]
    caplog.clear()
    return [Logged(each.name, each.levelname, each.getMessage(), _raised(each)) for each in records]


def _raised(record: logging.LogRecord) -> str:
    """Return the exception of a record and the source line that raised it, from the formatted traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ""
    # A traceback prints the causing exception first, so the last frame of the first traceback is the origin.
    first = (record.exc_text or "").split("\nThe above exception")[0]
    *_, (file, line) = re.findall(r'File "(.+)", line \d+, in .+\n +(.+)', first)
    return f"{type(error).__name__}: {error}, from {Path(file).name}: {line}"


FAILURES = [
    *((tool, VALID.get(tool, {})) for tool in FAILING if not tool.startswith("counts")),
    ("counts_against_its_schema", {"key": "k"}),
    *(("counts", {"key": "k", "end": end}) for end in ("told", "masked", "exit", "cancelled", "invalid", "late")),
    ("gives_number", {"value": "no number"}),
    ("constrained", {}),
    ("no_such_tool", {}),
]


@pytest.mark.parametrize("version", [HANDSHAKE, VERSION])
@pytest.mark.parametrize(("tool", "given"), FAILURES)
def test_a_failure_is_logged_once(
    pair: Pair, caplog: pytest.LogCaptureFixture, tool: str, given: dict[str, Any], version: str
) -> None:
    """Both paths log a failure once and with the same text."""
    caplog.set_level(logging.INFO)
    asked = called(tool, given, version)
    fast, _ = pair.fast_answer(asked)
    told = logged(caplog)
    full = pair.full_answer(asked)
    assert told == logged(caplog)
    assert fast.failed
    assert full.failed
    reply = _failure_text(full.message)
    if reply == f"Error calling tool '{tool}'":
        assert [line for line in told if line.raised or line.text.startswith(f"{reply}: ")]
    elif "validation error" in reply:  # The reply contains the caller's values, and the log must not contain them.
        assert [line for line in told if re.search(r" answered with an error: \w+: \w+$", line.text)]
    else:
        assert [
            line for line in told if " ".join(reply.split())[:100].replace("?", "") in line.text.replace("\ud800", "")
        ]
    # FastMCP also logs a line. Each tool that took part causes at most one line of each kind.
    kinds = Counter((line.logger, *re.findall(r"tool '(\w+)'", line.text)[:1]) for line in told)
    assert set(kinds.values()) == {1}
    assert len([line for line in told if line.raised]) <= 1


def _failure_text(message: dict[str, Any]) -> str:
    """Return the text that the client reads after a failure."""
    found: str = message["error"]["message"] if "error" in message else message["result"]["content"][0]["text"]
    return found


def test_a_success_is_not_logged(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """A successful call causes no log line, because the access log already has an entry for it."""
    caplog.set_level(logging.INFO)
    for tool in [*PLAIN, *UNUSUAL, *ARGUMENTS]:
        fast, _ = pair.fast_answer(called(tool, VALID.get(tool)))
        if not fast.failed:
            assert logged(caplog) == []
        caplog.clear()

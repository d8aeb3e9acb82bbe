"""What is logged of a call, in the same words by both paths."""

import logging
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mcp_swarm.process.logs import _CHATTY
from tests.calls import VERSION
from tests.mcp.paths.asked import HANDSHAKE, WARNINGS, called
from tests.mcp.paths.both import Pair
from tests.mcp.paths.tools import ARGUMENTS, FAILING, PLAIN, UNUSUAL, VALID

pytestmark = WARNINGS


@dataclass(frozen=True)
class Logged:
    """A line of log, without its time."""

    logger: str
    level: str
    text: str
    raised: str
    """The exception whose traceback goes with it, and the line of code that it comes from."""


def logged(caplog: pytest.LogCaptureFixture) -> list[Logged]:
    """The lines since the last look, as `mcp_swarm.process.logs` lets them through."""
    records = [record for record in caplog.records if record.name not in _CHATTY or record.levelno >= logging.WARNING]
    caplog.clear()
    return [Logged(each.name, each.levelname, each.getMessage(), _raised(each)) for each in records]


def _raised(record: logging.LogRecord) -> str:
    """From the text of the traceback, which was made when the line was logged: afterwards its frames are let go."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return ""
    # One exception that caused another comes first, so the first traceback's last frame is where it began.
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
def test_the_log_tells_of_a_failure_once(
    pair: Pair, caplog: pytest.LogCaptureFixture, tool: str, given: dict[str, Any], version: str
) -> None:
    """In the same words, whichever path it took."""
    caplog.set_level(logging.INFO)
    asked = called(tool, given, version)
    fast, _ = pair.fast_answer(asked)
    told = logged(caplog)
    full = pair.full_answer(asked)
    assert told == logged(caplog)
    assert fast.failed
    assert full.failed
    reply = _told(full.message)
    if reply == f"Error calling tool '{tool}'":
        assert [line for line in told if line.raised or line.text.startswith(f"{reply}: ")]
    elif "validation error" in reply:  # with the values that the caller gave, which the log does without
        assert [line for line in told if re.search(r" answered with an error: \w+: \w+$", line.text)]
    else:
        assert [
            line for line in told if " ".join(reply.split())[:100].replace("?", "") in line.text.replace("\ud800", "")
        ]
    # FastMCP has a line of its own; of each kind there is one, for each tool that took part.
    kinds = Counter((line.logger, *re.findall(r"tool '(\w+)'", line.text)[:1]) for line in told)
    assert set(kinds.values()) == {1}
    assert len([line for line in told if line.raised]) <= 1


def _told(message: dict[str, Any]) -> str:
    """What a caller reads of a failure."""
    found: str = message["error"]["message"] if "error" in message else message["result"]["content"][0]["text"]
    return found


def test_a_success_is_not_logged(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """The access log has its line already."""
    caplog.set_level(logging.INFO)
    for tool in [*PLAIN, *UNUSUAL, *ARGUMENTS]:
        fast, _ = pair.fast_answer(called(tool, VALID.get(tool)))
        if not fast.failed:
            assert logged(caplog) == []
        caplog.clear()

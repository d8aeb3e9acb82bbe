"""`mcp-swarm audit verify`: check an audit log."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

from mcp_swarm.audit.report import AuditReport, AuditRun
from mcp_swarm.audit.verify import Verifier

_SHOWN = 20

_EPILOG = """\
What can't be seen: whether the last lines of a run are missing that has no end ("killed, still running, or cut off").
To see that too, record the last hash of each run elsewhere from time to time, and give it with --expect: while it is
there, so are all lines before it. And without a key (AUDIT_KEY), who can write the file can write a whole new chain.

Exit codes: 0 intact; 1 broken, or no line of an audit log in it; 2 wrong arguments, or a file that can't be read.
"""


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        key = options.key_file.read_bytes().strip() if options.key_file else None
        verifier = Verifier(key, part=options.part, expected=options.expect)
    except OSError as error:
        return _unreadable(options.key_file, error.strerror)
    except ValueError as error:
        return _unreadable(options.key_file, str(error))
    for name in options.file:
        where = "" if len(options.file) == 1 else f"{name}, "
        try:
            with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    verifier.take(line, f"{where}line {number}")
        except OSError as error:
            return _unreadable(name, error.strerror)
    report = verifier.report()
    _say(_told(report))
    return 0 if report.intact else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mcp-swarm audit", description="Look after audit logs.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    verify = commands.add_parser(
        "verify",
        help="tell whether lines were changed, removed, moved or put in",
        description="Tell whether lines of an audit log were changed, removed, moved or put in. Lines of several "
        "replicas may be mixed, with lines of other logs in between: the output of `docker service logs`, for one.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verify.add_argument("file", nargs="+", metavar="FILE", help="- for stdin; rotated files together, the oldest first")
    verify.add_argument("--key-file", type=Path, metavar="PATH", help="the file that holds the key (AUDIT_KEY)")
    verify.add_argument(
        "--expect", action="append", default=[], type=_hash, metavar="HASH", help="a line with this hash must be there"
    )
    verify.add_argument(
        "--part",
        action="store_true",
        help="it is a part of a log (docker service logs --since …), cut at its beginning",
    )
    return parser


def _hash(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no hash: 64 hexadecimal digits")
    return text.lower()


def _told(report: AuditReport) -> Iterator[str]:
    for run in report.runs:
        yield _of_run(run)
    yield from report.problems[:_SHOWN]
    count = len(report.problems) + report.more
    if count > _SHOWN:
        yield f"… and {count - _SHOWN} problems more"
    if not report.runs:
        yield "broken: no line of an audit log is there"
    elif count:
        yield f"broken: {_number(count, 'problem')} in {_number(report.lines, 'line')}"
    else:
        yield f"intact: {_number(report.lines, 'line')}"


def _of_run(run: AuditRun) -> str:
    begins = {"begun": "from its beginning", "continued": "continuing an earlier file", "": "from somewhere within it"}
    ends = "ended" if run.ended else "no end: killed, still running, or cut off"
    return (
        f"replica {_safe(run.replica)}, run {_safe(run.run)}, {begins[run.begins]}: {_number(run.lines, 'line')}, "
        f"{_safe(run.first)} to {_safe(run.last)}, {ends}; last hash {run.hash}"
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _safe(text: str) -> str:
    """What stands in a file that somebody may have changed, fit for a terminal."""
    return text if text.isprintable() else ascii(text)


def _say(lines: Iterable[str]) -> None:
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unreadable(name: object, reason: str | None) -> int:
    sys.stderr.write(f"{name}: can't be used: {reason}\n")
    return 2

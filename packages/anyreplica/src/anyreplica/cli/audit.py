"""The command `anyreplica audit verify`, which checks an audit log."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

from anyreplica.features.audit.verify import AuditReport, AuditRun, Verifier

_SHOWN = 20
"""Maximum number of problems in the output."""

_EPILOG = """\
examples:
  anyreplica audit verify audit.log --key-file audit_key
  docker service logs --raw mcp-swarm_mcp 2>/dev/null |
    anyreplica audit verify -

limits:
  If the end of a run is missing ("no end: killed, still running, or cut off"),
  the command can't detect whether lines were removed there. To detect this too,
  record the last hash of each run at another place from time to time and give
  it with --expect. If a line with this hash exists, all lines before it exist
  too. Without a key (AUDIT_KEY), anyone who can write the file can also write a
  complete new chain.

exit codes:
  0  intact
  1  broken, or the input has no line of an audit log
  2  wrong arguments, or a file can't be read
"""


def main(arguments: list[str]) -> int:
    """Run the command and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        key = options.key_file.read_bytes().strip() if options.key_file else None
        verifier = Verifier(key, part=options.part, expected=options.expect)
    except OSError as error:
        return _refuse(options.key_file, f"can't be read: {error.strerror}")
    except ValueError as error:
        return _refuse(options.key_file, str(error))
    for name in options.file:
        where = "" if len(options.file) == 1 else f"{name}, "
        try:
            with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    verifier.check_line(line, f"{where}line {number}")
        except OSError as error:
            return _refuse(name, f"can't be read: {error.strerror}")
    report = verifier.report()
    _print(_lines(report))
    return 0 if report.intact else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyreplica audit",
        description="Work with audit logs (AUDIT_LOG).",
        epilog="""\
example:
  anyreplica audit verify audit.log --key-file audit_key
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    verify = commands.add_parser(
        "verify",
        help="check whether lines were changed, removed, moved or inserted",
        description="""\
Check whether lines of an audit log were changed, removed, moved or inserted.
The input may mix lines of several replicas and lines of other logs, like the
output of `docker service logs` does.""",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verify.add_argument(
        "file", nargs="+", metavar="FILE", help="audit log; - for stdin; give rotated files together, the oldest first"
    )
    verify.add_argument("--key-file", type=Path, metavar="PATH", help="file with the key of the audit log (AUDIT_KEY)")
    verify.add_argument(
        "--expect",
        action="append",
        default=[],
        type=_hash,
        metavar="HASH",
        help="require a line with this hash; repeatable",
    )
    verify.add_argument(
        "--part",
        action="store_true",
        help="accept a log without its beginning, such as the output of docker service logs --since",
    )
    return parser


def _hash(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a hash; a hash has 64 hexadecimal digits")
    return text.lower()


def _lines(report: AuditReport) -> Iterator[str]:
    for run in report.runs:
        yield _of_run(run)
    yield from report.problems[:_SHOWN]
    count = len(report.problems) + report.more
    if count > _SHOWN:
        yield f"… and {count - _SHOWN} more problems"
    if not report.runs:
        yield "broken: the input has no line of an audit log"
    elif count:
        yield f"broken: {_number(count, 'problem')} in {_number(report.lines, 'line')}"
    else:
        yield f"intact: {_number(report.lines, 'line')}"


def _of_run(run: AuditRun) -> str:
    begins = {"begun": "from its beginning", "continued": "continued from an earlier file", "": "without its beginning"}
    ends = "ended" if run.ended else "no end: killed, still running, or cut off"
    return (
        f"replica {_safe(run.replica)}, run {_safe(run.run)}, {begins[run.begins]}: {_number(run.lines, 'line')}, "
        f"{_safe(run.first)} to {_safe(run.last)}, {ends}; last hash {run.hash}"
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _safe(text: str) -> str:
    """Return text from the file without control characters: an attacker may have put them there."""
    return text if text.isprintable() else ascii(text)


def _print(lines: Iterable[str]) -> None:
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # The reader, such as `head`, has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(name: object, problem: str) -> int:
    sys.stderr.write(f"{name}: {problem}\n")
    return 2

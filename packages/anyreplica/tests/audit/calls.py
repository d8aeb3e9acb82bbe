"""Helpers that build calls and audit log entries for the tests of the audit log."""

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from anyreplica.features.audit.call import Noted, canonical
from anyreplica.features.audit.line import Chain, Digests, Form, Shown
from anyreplica.features.audit.verify import AuditReport, Verifier

KEY = b"0123456789abcdef0123456789abcdef"
NOON = 1_790_000_000.25


def a_call(arguments: Any = None, **changes: Any) -> Noted:
    """Return a successful call of `echo`, with the given changes."""
    call = Noted(NOON, "1f2e3d4c", "key:ci", "tools/call", "echo", canonical(arguments), 200, False, 0.0015)
    return call._replace(**changes)


def line_of(call: Noted, *shown: str, key: bytes | None = None) -> bytes:
    """Return the entry of a call as the first entry of its chain."""
    digests = Digests(key)
    (line,) = Chain("r1", "run1", digests).link([Form(Shown(shown), digests).call(call)])
    return line


def said(line: bytes) -> dict[str, Any]:
    """Return the fields of an entry."""
    fields: dict[str, Any] = json.loads(line)
    return fields


def chained(calls: Sequence[Noted], key: bytes | None = None, replica: str = "r1", run: str = "run1") -> list[bytes]:
    """Return the entries of a whole run of a replica that stops in order."""
    digests = Digests(key)
    form = Form(Shown(()), digests)
    begun = form.event("begun", after="", keyed=digests.keyed)
    return Chain(replica, run, digests).link([begun, *map(form.call, calls), form.event("ended")])


def verify(
    lines: Iterable[bytes], key: bytes | None = None, *, part: bool = False, expected: Collection[str] = ()
) -> AuditReport:
    """Return the report on a whole log; see `Verifier` for the arguments."""
    verifier = Verifier(key, part=part, expected=expected)
    for number, line in enumerate(lines, 1):
        verifier.check_line(line, f"line {number}")
    return verifier.report()


def lines_in(path: Path) -> list[bytes]:
    """Return the lines of a file, or an empty list if the file does not exist yet."""
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def ids(lines: Sequence[bytes]) -> list[str]:
    """Return the request ids of the calls among the lines, in their order."""
    return [fields["request_id"] for fields in _whole(lines) if "event" not in fields]


def events(lines: Sequence[bytes]) -> list[str]:
    """Return the names of the log's own events among the lines, such as `begun`, in the order of the lines."""
    return [fields["event"] for fields in _whole(lines) if "event" in fields]


def _whole(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the fields of all complete entries; leave out lines of other logs and unfinished lines."""
    return [said(line) for line in lines if line.startswith(b"{") and line.endswith(b"}\n")]

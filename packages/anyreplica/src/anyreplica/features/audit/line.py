"""The format of an entry in the audit log.

An entry about a call has these fields:

    audit          1, the version of the format; every entry begins with this field
    time           start of the call, in UTC
    request_id     the same id as in the access log
    caller         name of the caller; empty if there is no authenticated caller
    method, name   what the caller called
    arguments_sha256 (with a key: arguments_hmac_sha256)   digest of the canonical JSON; absent without arguments
    arguments      the arguments that are on the allow-list
    arguments_left_out   true if an argument on the allow-list is too long
    outcome        see `outcome`
    status, ms     HTTP status of the reply, and duration of the call in milliseconds
    replica, run, seq, prev, hash   see `Digests`

An entry about the log itself has the field `event`, and details of the event, in place of the fields about a call. The
events are:

    begun          a process begins its run; `after` is the hash of the last entry in the file (empty: none), and
                   `keyed` says whether the hashes need a key
    continued      a run goes on in a new file, after the old file was renamed, removed or emptied; same details
    dropped        `count` calls have no entry, because the log could not be written
    refused        `count` calls were refused while the log could not be written (`AUDIT_ON_FAILURE=refuse`)
    ended          the process stopped normally, and all entries are written

Text from callers is cut at a limit. A longer name ends with its SHA-256. If a character is not printable, the text is
written with escapes. So an entry contains no line breaks, no control characters, and nothing that changes how a
terminal shows the rest.
"""

import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from fnmatch import translate
from functools import lru_cache
from typing import Protocol

import orjson
from pydantic_core import from_json

from anyreplica.features.audit.call import Noted

MOST_SHOWN_BYTES = 1200
"""Maximum size of the arguments in an entry, in bytes of JSON. So an entry is shorter than 4096 bytes, and a pipe
keeps it in one piece."""

_MOST_READ = 64 * 1024
"""Maximum size of arguments that are searched, in bytes. The event loop waits while the thread parses arguments."""

_ENCODER = json.JSONEncoder(separators=(",", ":"))

_SHORTEST_KEY = 32
"""Minimum length of a key in bytes."""


class Hashed(Protocol):
    """A hash object of `hashlib` or `hmac`."""

    def hexdigest(self) -> str:
        """Return the digest in hexadecimal digits."""


Hasher = Callable[[bytes], Hashed]
"""A function that hashes bytes and returns the hash object, such as `hashlib.sha256`. If it returned the
hexadecimal digits, each call would need 400 instructions more."""

_HASH = slice(-67, -3)
"""Position of the hash in a line. The line ends with the 64 digits, a quote, a brace and a line break."""

BEGINNING = b'{"audit":1,'
"""The first bytes of every entry."""

_TIME = BEGINNING.decode() + '"time":"'

_THOUSANDTHS = [f".{number:03}" for number in range(1000)]
"""The three decimal places of a time."""

STATUS_UNAVAILABLE = 503
"""HTTP status of a call that the replica refused for now, or cancelled."""

_GONE = 499

_LONGEST_NAME = 200
"""Maximum number of characters in a name."""

_LONGEST = 100
"""Maximum number of characters in a text other than a name."""


class Shown:
    """The allow-list: patterns of the form `tool.argument` for `fnmatch`, like `echo.message` or `sales_*.region`.

    The last dot separates the two parts. The names of prompts and jobs count like names of tools.

    Raises:
        ValueError: a pattern is not valid.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [_pattern(text) for text in patterns]
        self.any = bool(patterns)
        """Whether there are patterns."""
        self._names = lru_cache(maxsize=256)(self._names_of)

    def pick(self, name: str, arguments: bytes) -> tuple[bytes | None, bool]:
        """Return the arguments of a call that the log may show. `arguments` is canonical JSON.

        Returns:
            A JSON object, or None if there is nothing to show; and whether an argument on the allow-list was left out
            because it is too long.
        """
        wanted = self._names(name) if self._patterns and arguments else None
        if wanted is None:
            return None, False
        if len(arguments) > _MOST_READ:
            return None, True
        try:
            given = from_json(arguments, allow_inf_nan=False)
        except ValueError:  # lone surrogates, which JSON from a client does not contain
            return None, True
        return _fitting(given, wanted) if isinstance(given, dict) else (None, False)

    def _names_of(self, name: str) -> re.Pattern[str] | None:
        found = [argument for tool, argument in self._patterns if tool.match(name)]
        return re.compile("|".join(found)) if found else None


def _pattern(text: str) -> tuple[re.Pattern[str], str]:
    tool, _, argument = text.rpartition(".")
    if not tool or not argument or not text.isprintable() or " " in text:
        raise ValueError(f"{text!r} is not a pattern; write tool.argument, for example echo.message or sales_*.year")
    return re.compile(translate(tool)), translate(argument)


def _fitting(given: dict[str, object], wanted: re.Pattern[str]) -> tuple[bytes | None, bool]:
    parts, size, too_long = [], 0, False
    for name, value in given.items():
        if not wanted.match(name):
            continue
        part = b"%b:%b" % (_ascii(name), _ascii(value))
        if size + len(part) > MOST_SHOWN_BYTES:
            too_long = True
        else:
            parts.append(part)
            size += len(part) + 1
    return b"{%b}" % b",".join(parts) if parts else None, too_long


def _ascii(value: object) -> bytes:
    """Return JSON that is pure ASCII, so that no character breaks a line or hides a part of it."""
    with suppress(orjson.JSONEncodeError):  # an integer beyond 64 bits
        if (text := orjson.dumps(value)).isascii():
            return text
    return _ENCODER.encode(value).encode()


class Digests:
    """The digests of entries and arguments, in hexadecimal digits: SHA-256 or, with a key, HMAC-SHA-256 (RFC 2104).

    Each entry is a line that ends with these fields:

        replica   the name of the replica
        run       a random id of the process
        seq       0, 1, 2 …
        prev      the hash of the run's previous entry; empty in the first entry
        hash      the digest of all bytes of the line before `,"hash":`

    So the hash of an entry also covers all earlier entries. The check of a log uses the bytes of the file, so the
    result does not depend on how a JSON reader interprets these bytes.

    A key prevents two attacks. Without a key, a person who can write the file can write a complete new chain. A person
    who can read the file can try values until one has the digest of an argument; for a year of birth this takes no
    time.

    Entries and arguments have different keys. Both are derived from the given key. Otherwise a caller could send a
    forged entry as arguments, and the log would then contain the valid digest of the forged entry.

    Raises:
        ValueError: the key is shorter than 32 bytes.
    """

    def __init__(self, key: bytes | None) -> None:
        if key is not None and len(key) < _SHORTEST_KEY:
            raise ValueError(f"the key is shorter than {_SHORTEST_KEY} bytes; run openssl rand -hex 32 to make one")
        self.keyed = key is not None
        self.line: Hasher = hashlib.sha256 if key is None else _keyed(key, b"audit: lines")
        self.arguments: Hasher = hashlib.sha256 if key is None else _keyed(key, b"audit: arguments")


def _keyed(key: bytes, purpose: bytes) -> Hasher:
    prepared = hmac.new(hmac.digest(key, purpose, "sha256"), digestmod="sha256")

    def hasher(data: bytes) -> Hashed:
        made = prepared.copy()  # a copy saves the preparation of the key
        made.update(data)
        return made

    return hasher


class Chain:
    """The chain of a run. It completes the entries that `anyreplica.features.audit.line` begins."""

    def __init__(self, replica: str, run: str, digests: Digests) -> None:
        self.seq = 0
        """Sequence number of the next entry."""
        self._prev = ""
        self._hasher = digests.line
        self._source = f',"replica":{orjson.dumps(replica).decode()},"run":{orjson.dumps(run).decode()},"seq":'

    def link(self, bodies: Iterable[str]) -> list[bytes]:
        """Return the complete lines for these unfinished entries. Only `advance` changes the chain."""
        lines = []
        prev, source, hasher = self._prev, self._source, self._hasher
        for seq, body in enumerate(bodies, self.seq):
            covered = f'{body}{source}{seq},"prev":"{prev}"'
            prev = hasher(covered.encode()).hexdigest()
            lines.append(f'{covered},"hash":"{prev}"}}\n'.encode())
        return lines

    def advance(self, lines: Sequence[bytes]) -> None:
        """Continue the chain after these lines were written. They are the first lines of the last result of `link`."""
        if lines:
            self.seq += len(lines)
            self._prev = lines[-1][_HASH].decode()


def outcome(status: int, failed: bool) -> str:
    """Return in one word how a call ended.

    - `ok`: the call succeeded.
    - `failed`: an error of the tool, of JSON-RPC or of the server.
    - `refused`: the call did not start (HTTP 4xx or 503).
    - `cancelled`: the call started, and the replica stopped before the call ended.
    - `gone`: the client closed the connection before the reply.
    """
    if status == _GONE:
        return "gone"
    if status == STATUS_UNAVAILABLE:
        return "cancelled" if failed else "refused"
    if 400 <= status < 500:
        return "refused"
    return "failed" if failed or status >= 500 else "ok"


class Form:
    """The writer of unfinished entries: JSON objects without their end, which the chain adds."""

    def __init__(self, shown: Shown, digests: Digests) -> None:
        self._shown = shown
        self._hasher = digests.arguments
        self._digest_begins = ',"arguments_hmac_sha256":"' if digests.keyed else ',"arguments_sha256":"'
        self._second: int | None = None
        self._clock_text = ""

    def call(self, noted: Noted) -> str:
        """Return the entry of a call.

        This method runs for each call, so it builds the JSON by hand and caches the parts that repeat.
        """
        start, request_id, caller, method, called, arguments, status, failed, seconds = noted
        if len(request_id) > _LONGEST or len(method) > _LONGEST or len(called) > _LONGEST_NAME:
            request_id, method, called = request_id[:_LONGEST], method[:_LONGEST], _shortened(called)
        if not request_id.isalnum():
            request_id = _quoted(request_id)[1:-1]
        second, microseconds = int(start), int(seconds * 1e6)
        if second != self._second:
            self._second, self._clock_text = second, _clock(second)
        who, ended = _around_arguments(caller, method, called, status, failed)
        digest = f'{self._digest_begins}{self._hasher(arguments).hexdigest()}"' if arguments else ""
        if self._shown.any:
            digest += self._shown_of(called, arguments)
        return (
            f'{_TIME}{self._clock_text}{_THOUSANDTHS[int((start - second) * 1000)]}Z","request_id":"{request_id}"{who}'
            f"{digest}{ended}{microseconds // 1000}{_THOUSANDTHS[microseconds % 1000]}"
        )

    def event(self, event: str, **details: str | int | bool) -> str:
        """Return an entry about the log itself."""
        members = orjson.dumps({"event": event, **details})[1:-1].decode()
        now = time.time()
        return f'{_TIME}{_clock(int(now))}{_THOUSANDTHS[int(now % 1 * 1000)]}Z",{members}'

    def _shown_of(self, name: str, arguments: bytes) -> str:
        values, too_long = self._shown.pick(name, arguments)
        part = "" if values is None else f',"arguments":{values.decode()}'
        return part + ',"arguments_left_out":true' if too_long else part


@lru_cache(maxsize=256)
def _around_arguments(caller: str, method: str, name: str, status: int, failed: bool) -> tuple[str, str]:
    """Return the fields between the request id and the arguments, and those after the arguments."""
    who = f',"caller":{_quoted(caller[:_LONGEST])},"method":{_quoted(method)},"name":{_quoted(name)}'
    return who, f',"outcome":"{outcome(status, failed)}","status":{status:d},"ms":'


def _clock(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def _quoted(text: str) -> str:
    """Return a text of a caller as JSON with only printable characters, at most as long as a name may be."""
    return orjson.dumps(text if text.isprintable() else _shortened(ascii(text)[1:-1])).decode()


def _shortened(text: str) -> str:
    """Return a text of at most 200 characters: a longer one ends with its digest, so that two of them differ."""
    if len(text) <= _LONGEST_NAME:
        return text
    return f"{text[:100]} sha256:{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()}"

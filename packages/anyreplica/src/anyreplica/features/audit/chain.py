"""The chain of a run's entries, and the digests of entries and arguments.

Each entry is a line that ends with these fields:

    replica   the name of the replica
    run       a random id of the process
    seq       0, 1, 2 …
    prev      the hash of the run's previous entry; empty in the first entry
    hash      the digest of all bytes of the line before `,"hash":`

So the hash of an entry also covers all earlier entries. The check of a log uses the bytes of the file, so the result
does not depend on how a JSON reader interprets these bytes.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence

import orjson

_SHORTEST_KEY = 32
"""Minimum length of a key in bytes."""

Digest = Callable[[bytes], str]

_HASH = slice(-67, -3)
"""Position of the hash in a line. The line ends with the 64 digits, a quote, a brace and a line break."""


class Digests:
    """The digests of entries and arguments, in hexadecimal digits: SHA-256 or, with a key, HMAC-SHA-256 (RFC 2104).

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
        self.line: Digest = _plain if key is None else _keyed(key, b"audit: lines")
        self.arguments: Digest = _plain if key is None else _keyed(key, b"audit: arguments")


def _plain(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _keyed(key: bytes, purpose: bytes) -> Digest:
    begun = hmac.new(hmac.digest(key, purpose, "sha256"), digestmod="sha256")

    def digest(data: bytes) -> str:
        made = begun.copy()  # a copy saves the preparation of the key
        made.update(data)
        return made.hexdigest()

    return digest


class Chain:
    """The chain of a run. It completes the entries that `anyreplica.features.audit.line` begins."""

    def __init__(self, replica: str, run: str, digests: Digests) -> None:
        self.seq = 0
        """Sequence number of the next entry."""
        self._prev = b""
        self._digest = digests.line
        self._source = b',"replica":%b,"run":%b,"seq":' % (orjson.dumps(replica), orjson.dumps(run))

    def link(self, bodies: Iterable[bytes]) -> list[bytes]:
        """Return the complete lines for these unfinished entries. Only `advance` changes the chain."""
        lines = []
        prev = self._prev
        for seq, body in enumerate(bodies, self.seq):
            covered = b'%b%b%d,"prev":"%b"' % (body, self._source, seq, prev)
            prev = self._digest(covered).encode()
            lines.append(b'%b,"hash":"%b"}\n' % (covered, prev))
        return lines

    def advance(self, lines: Sequence[bytes]) -> None:
        """Continue the chain after these lines were written. They are the first lines of the last result of `link`."""
        if lines:
            self.seq += len(lines)
            self._prev = lines[-1][_HASH]

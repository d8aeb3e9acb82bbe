"""The chain of a run's lines, and the digests by which lines and arguments are recognised.

Each line ends in `replica`, `run` (a random id of the process), `seq` (0, 1, 2 …), `prev` (the hash of the run's line
before it; empty in the first) and `hash`: the digest of all bytes of the line ahead of `,"hash":`. So a line's hash
covers all lines before it, and is checked on the bytes that stand in the file, whatever a reader makes of them.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Sequence

import orjson

_SHORTEST_KEY = 32
"""Bytes of a key."""

Digest = Callable[[bytes], str]

_HASH = slice(-67, -3)
"""Where a line has its hash: it ends in the 64 digits, a quote, a brace and a line break."""


class Digests:
    """SHA-256 or, with a key, HMAC-SHA-256 (RFC 2104), as hexadecimal digits.

    Without a key, who can write the file can write a whole new chain; and who reads it can try arguments until one
    has the digest, which for a year of birth takes no time. A key prevents both.

    Lines and arguments have keys of their own, both made of the one: otherwise a caller could have a line of its own
    making signed by sending it as arguments.

    Raises:
        ValueError: the key is too short.
    """

    def __init__(self, key: bytes | None) -> None:
        if key is not None and len(key) < _SHORTEST_KEY:
            raise ValueError(f"the key is shorter than {_SHORTEST_KEY} characters; openssl rand -hex 32 makes one")
        self.keyed = key is not None
        self.line: Digest = _plain if key is None else _keyed(key, b"audit: lines")
        self.arguments: Digest = _plain if key is None else _keyed(key, b"audit: arguments")


def _plain(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _keyed(key: bytes, purpose: bytes) -> Digest:
    begun = hmac.new(hmac.digest(key, purpose, "sha256"), digestmod="sha256")

    def digest(data: bytes) -> str:
        made = begun.copy()  # which spares the preparation of the key
        made.update(data)
        return made.hexdigest()

    return digest


class Chain:
    """Makes lines of bodies (`mcp_swarm.audit.line`)."""

    def __init__(self, replica: str, run: str, digests: Digests) -> None:
        self.seq = 0
        """Of the next line."""
        self._prev = b""
        self._digest = digests.line
        self._whose = b',"replica":%b,"run":%b,"seq":' % (orjson.dumps(replica), orjson.dumps(run))

    def link(self, bodies: Iterable[bytes]) -> list[bytes]:
        """The lines of these bodies, if they come next. The chain is as it was until `advance`."""
        lines = []
        prev = self._prev
        for seq, body in enumerate(bodies, self.seq):
            covered = b'%b%b%d,"prev":"%b"' % (body, self._whose, seq, prev)
            prev = self._digest(covered).encode()
            lines.append(b'%b,"hash":"%b"}\n' % (covered, prev))
        return lines

    def advance(self, lines: Sequence[bytes]) -> None:
        """These, the first of those that `link` made last, are written."""
        if lines:
            self.seq += len(lines)
            self._prev = lines[-1][_HASH]

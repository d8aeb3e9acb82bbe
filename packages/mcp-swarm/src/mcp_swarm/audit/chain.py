"""The chain of a run's lines.

Each line ends in `replica`, `run` (a random id of the process), `seq` (0, 1, 2 …), `prev` (the hash of the run's line
before it; empty in the first) and `hash`: the digest of all bytes of the line ahead of `,"hash":`. So a line's hash
covers all lines before it, and is checked on the bytes that stand in the file, whatever a reader makes of them.
"""

from collections.abc import Iterable, Sequence

import orjson

from mcp_swarm.audit.digests import Digests

_HASH = slice(-67, -3)
"""Where a line has its hash: it ends in the 64 digits, a quote, a brace and a line break."""


class Chain:
    """Makes lines of bodies (`mcp_swarm.audit.line`).

    Args:
        replica: its name.
        run: the process's id.
        digests: of lines.
    """

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

"""Inputs: bytes that are almost HTTP requests, of both protocol families and of the jobs' routes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from mcp.shared.inbound import encode_header_value
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.calls import BOTH, VERSION
from tests.fuzz import odd_heads
from tests.fuzz.bodies import SUBMISSION, damaged, encoded, mangled, message
from tests.fuzz.callers import Headers, shown
from tests.fuzz.dice import Dice

Pieces = list[bytes]
"""Bytes for a connection; each piece is sent separately."""


@dataclass(frozen=True)
class Draft:
    """A request that is not yet written as bytes."""

    method: bytes
    target: bytes
    headers: Headers
    body: bytes = b""
    version: bytes = b"HTTP/1.1"
    end: bytes = b"\r\n"
    """End of each line of the head."""

    def plus(self, *headers: tuple[bytes, bytes]) -> "Draft":
        """Return a copy with more headers."""
        return replace(self, headers=[*self.headers, *headers])

    @property
    def wire(self) -> bytes:
        """The bytes of the request."""
        first = b" ".join([self.method, self.target, self.version])
        return self.end.join([first, *(b"%b: %b" % header for header in self.headers), b"", self.body])


def feed(take: Callable[[Pieces], None], job: str, count: int, seed: int) -> None:
    """Make `count` inputs and pass each one to `take`.

    The same seed gives the same inputs, except for the times in signatures and tokens.

    Args:
        take: function that gets the pieces of an input.
        job: id of an existing job.
        count: number of inputs.
        seed: seed of the random choices.
    """

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_inputs(job.encode()))
    def each(pieces: Pieces) -> None:
        take(pieces)

    each()


@st.composite
def _inputs(draw: st.DrawFn, job: bytes) -> Pieces:
    dice = Dice(draw)
    data = b"".join(_request(dice, job) for _ in range(3 if dice.once_in(10) else 1))
    if not dice.once_in(12):
        return [data]
    cuts = sorted({0, len(data), *(dice.below(min(len(data), 2_000) + 1) for _ in range(3))})
    return [data[start:end] for start, end in pairwise(cuts)]


def _request(dice: Dice, job: bytes) -> bytes:
    kind = dice.below(12)
    if kind < 9:
        draft = _message(dice)
    elif kind < 11:
        draft = _job(dice, job)
    else:
        method = dice.one_of([b"GET", b"GET", b"HEAD", b"OPTIONS", b"POST"])
        draft = Draft(method, dice.one_of(odd_heads.PAGES), [(b"Host", b"localhost")])
    draft = draft.plus(*shown(dice, draft.method.decode(), _sent_as(draft.target), draft.body))
    if dice.once_in(4):
        for _ in range(1 + dice.below(2)):
            draft = _spoilt(dice, draft)
    draft = _framed(dice, draft)
    return mangled(dice, draft.wire) if dice.once_in(12) else draft.wire


def _sent_as(target: bytes) -> str:
    return "".join(chr(byte) if 32 < byte < 127 else "%00" for byte in target)


def _message(dice: Dice) -> Draft:
    """Return a message to `/mcp`.

    The headers describe the message before it was damaged.
    """
    version = dice.one_of([None, VERSION, VERSION, VERSION, *HANDSHAKE_PROTOCOL_VERSIONS])
    sent = message(dice, version)
    headers: Headers = [(b"Host", b"localhost"), (b"Content-Type", b"application/json")]
    headers.append((b"Accept", dice.one_of([b"application/json", BOTH.encode(), b"*/*"])))
    if version is not None:
        headers.append((b"MCP-Protocol-Version", version.encode()))
    if version == VERSION and isinstance(sent, dict):
        headers += _routing(sent)
    if dice.once_in(2):
        sent = damaged(dice, sent)
    return Draft(b"POST", b"/mcp", headers, encoded(dice, sent))


def _routing(sent: dict[str, Any]) -> Headers:
    params = sent.get("params")
    params = params if isinstance(params, dict) else {}
    said = {b"Mcp-Method": sent.get("method"), b"Mcp-Name": params.get("name") or params.get("uri")}
    if params.get("name") == "by_region":
        said[b"Mcp-Param-Region"] = params["arguments"]["region"]
    return [(name, _header(value)) for name, value in said.items() if isinstance(value, str)]


def _header(text: str) -> bytes:
    try:
        return encode_header_value(text).encode("latin-1", "replace")
    except UnicodeEncodeError:  # a lone surrogate
        return b"?"


def _job(dice: Dice, job: bytes) -> Draft:
    """Return a request to the routes of jobs."""
    headers: Headers = [(b"Host", b"localhost"), (b"Content-Type", b"application/json")]
    if dice.once_in(3):
        if dice.once_in(2):
            headers.append((b"Idempotency-Key", dice.one_of([*odd_heads.WORDS, dice.bytes(20)])))
        return Draft(
            b"POST", b"/jobs", headers, encoded(dice, damaged(dice, SUBMISSION) if dice.once_in(2) else SUBMISSION)
        )
    identity = dice.one_of([job, job, job, b"x" * 32, *odd_heads.WORDS])
    after = dice.one_of([b"", b"/status", b"/result", b"/", b"/no", b"?x=1"])
    query = dice.one_of([b"limit=", b"cursor=", b"limit=5&cursor="]) + identity
    target = dice.one_of([b"/jobs", b"/jobs?" + query, b"/jobs/" + identity + after])
    return Draft(dice.one_of([b"GET", b"GET", b"DELETE", b"PUT", b"HEAD"]), target, headers)


def _spoilt(dice: Dice, draft: Draft) -> Draft:
    """Return a request with an odd part in its head."""
    place = dice.below(len(draft.headers))
    before, (name, value), after = draft.headers[:place], draft.headers[place], draft.headers[place + 1 :]
    how = dice.one_of(["line", "value", "value", "value", "gone", "twice", "more", "more", "more", "many"])
    if how == "line":
        part = dice.one_of(sorted(odd_heads.LINES))
        other: Any = {part: dice.one_of([*odd_heads.LINES[part], dice.bytes(20)])}
        return replace(draft, **other)
    if how == "value":
        usual = [value.upper(), b" \t" + value + b"\t ", mangled(dice, value), mangled(dice, value)]
        return replace(
            draft, headers=[*before, (name, dice.one_of(odd_heads.WORDS if dice.once_in(2) else usual)), *after]
        )
    if how == "gone" and before + after:
        return replace(draft, headers=before + after)
    if how == "twice":
        return draft.plus((name, dice.one_of([value, b"", b"other"])))
    extra = dice.one_of([*odd_heads.NAMES, dice.bytes(9)])
    if how == "many":
        count, size = dice.one_of([(2_000, 10), (200, 400), (1, 63_000), (1, 70_000), (20, 3_000)])
        return draft.plus(*[(extra, b"v" * size)] * count)
    return draft.plus((extra, dice.one_of(odd_heads.WORDS)))


def _framed(dice: Dice, draft: Draft) -> Draft:
    """Return a request with the length of its body, which is usually right."""
    length = len(draft.body)
    if not dice.once_in(6):
        return draft.plus((b"Content-Length", b"%d" % length)) if draft.body else draft
    how = dice.one_of(["odd", "wrong", "more", "none", "chunked", "both", "coding"])
    if how == "odd":
        return draft.plus((b"Content-Length", dice.one_of(odd_heads.LENGTHS) % length))
    if how == "wrong":
        return draft.plus((b"Content-Length", b"%d" % max(0, length + dice.below(60) - 30)))
    if how == "none":
        return replace(draft.plus((b"Content-Length", b"%d" % (length + 1))), body=b"")
    if how == "more":
        body = draft.body + dice.one_of([draft.body, b"GET /healthz HTTP/1.1\r\n\r\n", b"0\r\n\r\n"])
        return replace(draft.plus((b"Content-Length", b"%d" % length)), body=body)
    draft = draft.plus((b"Transfer-Encoding", dice.one_of(odd_heads.CODINGS) if how == "coding" else b"chunked"))
    if how == "both":
        draft = draft.plus((b"Content-Length", b"%d" % length))
    form, half = dice.one_of(odd_heads.CHUNKS), length // 2
    chunks = [form % (half, draft.body[:half]), form % (length - half, draft.body[half:])]
    return replace(draft, body=b"".join(chunks) + dice.one_of(odd_heads.TRAILERS))

"""Requests of both protocol families, of the jobs' routes and of other routes, valid and damaged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.calls import BOTH
from tests.damage import fields
from tests.damage.dice import Dice
from tests.damage.messages import CALLS, OTHERS, VERSIONS, Call, damaged, encoded, mangled, message
from tests.damage.values import Values, odd
from tests.damage.wire import Headers, Request, routing

_HEADERS: Headers = ((b"Host", b"localhost"), (b"Content-Type", b"application/json"))


@dataclass(frozen=True)
class Served:
    """What a server serves."""

    calls: Sequence[Call]
    others: Sequence[Call] = tuple(OTHERS)
    job: bytes = b"x" * 32
    """Id of a job."""
    submission: Any = None


SAMPLE = Served(CALLS, submission={"job": "generate_report", "params": {"rows": 1}})


def ordinary(dice: Dice, served: Served = SAMPLE) -> bytes:
    """Return a request with valid HTTP that gets its reply soon."""
    return _with_length(some_request(dice, served, is_damaged=False)).wire


def broken(dice: Dice, served: Served = SAMPLE) -> bytes:
    """Return a request that is invalid HTTP, or a request in which anything may be damaged."""
    if dice.once_in(8):
        return dice.one_of(fields.WHOLE)
    asked = some_request(dice, served, is_damaged=True)
    return sent(dice, spoilt(dice, asked) if dice.once_in(2) else asked)


def some_request(dice: Dice, served: Served, *, is_damaged: bool) -> Request:
    """Return a request to any route, without its length. `is_damaged`: half of the bodies are damaged."""
    kind = dice.below(12)
    if kind < 9:
        return to_mcp(dice, served, damage=2 if is_damaged else 0)
    if kind < 11:
        return _to_jobs(dice, served, is_damaged=is_damaged)
    method = dice.one_of([b"GET", b"GET", b"HEAD", b"OPTIONS", b"POST"])
    return Request(b"", _HEADERS[:1], method, dice.one_of(fields.PAGES))


def to_mcp(dice: Dice, served: Served, *, damage: int, values: Values = odd) -> Request:
    """Return a message, damaged with `values` once in `damage` (0: never); its headers describe it before."""
    version = dice.one_of([*VERSIONS, VERSIONS[-1], VERSIONS[-1]])
    asked = message(dice, version, served.calls, served.others)
    headers = [*_HEADERS, (b"Accept", dice.one_of([b"application/json", BOTH.encode(), b"*/*"]))]
    headers += [(name.encode(), value.encode("latin-1", "replace")) for name, value in routing(asked, version).items()]
    if damage and dice.once_in(damage):
        asked = damaged(dice, asked, values)
    body = encoded(dice, asked)
    return Request(mangled(dice, body) if damage and dice.once_in(8 * damage) else body, tuple(headers))


def _to_jobs(dice: Dice, served: Served, *, is_damaged: bool) -> Request:
    """Return a request to the routes of jobs."""
    if dice.once_in(3):
        key = dice.one_of([*fields.WORDS, dice.bytes(20)]) if is_damaged else b"k%d" % dice.below(100)
        headers = (*_HEADERS, (b"Idempotency-Key", key)) if dice.once_in(2) else _HEADERS
        submission = damaged(dice, served.submission) if is_damaged and dice.once_in(2) else served.submission
        return Request(encoded(dice, submission), headers, target=b"/jobs")
    identity = dice.one_of([served.job, served.job, served.job, b"x" * 32, *(fields.WORDS if is_damaged else ())])
    after = dice.one_of([b"", b"/status", b"/result", b"/", b"/no", b"?x=1"])
    query = dice.one_of([b"limit=", b"cursor=", b"limit=5&cursor="]) + identity
    target = dice.one_of([b"/jobs", b"/jobs?" + query, b"/jobs/" + identity + after])
    return Request(b"", _HEADERS, dice.one_of([b"GET", b"GET", b"DELETE", b"PUT", b"HEAD"]), target)


def spoilt(dice: Dice, asked: Request) -> Request:
    """Return a request with an odd part in its head."""
    place = dice.below(len(asked.headers))
    before, (name, value), after = asked.headers[:place], asked.headers[place], asked.headers[place + 1 :]
    how = dice.one_of(["line", "value", "value", "form", "gone", "twice", "more", "more", "more", "many", "protocol"])
    if how == "line":
        part = dice.one_of(sorted(fields.LINES))
        other: Any = {part: dice.one_of([*fields.LINES[part], dice.bytes(20)])}
        return replace(asked, **other)
    if how == "value":
        said = dice.one_of(fields.WORDS) if dice.once_in(2) else mangled(dice, value)
        return replace(asked, headers=(*before, (name, said), *after))
    if how == "form":
        forms = fields.in_form(value.decode("latin-1"), dice.one_of(fields.FORMS))
        return replace(asked, headers=(*before, *((name, each) for each in forms), *after))
    if how == "gone":
        return replace(asked, headers=before + after) if before + after else asked
    if how == "twice":
        return asked.plus((name, dice.one_of([value, b"", b"other"])))
    if how == "protocol":
        return asked.plus(*dice.one_of(_PROTOCOLS))
    extra = dice.one_of([*fields.NAMES, dice.bytes(9)])
    if how == "many":
        count, size = dice.one_of([(99, 1), (101, 1), (2_000, 10), (200, 400), (1, 63_000), (1, 70_000), (20, 3_000)])
        return asked.plus(*[(extra, b"v" * size)] * count)
    return asked.plus((extra, dice.one_of(fields.WORDS)))


_UPGRADE = ((b"Connection", b"Upgrade, HTTP2-Settings"), (b"HTTP2-Settings", b"AAMAAABkAARAAAAAAAIAAAAA"))
_PROTOCOLS: list[Headers] = [(*_UPGRADE, (b"Upgrade", each)) for each in (b"h2c", b"websocket", b"x" * 500)]
_PROTOCOLS += [((b"Expect", each),) for each in (b"100-continue", b"100-CONTINUE", b"200-ok")]
"""Headers that ask for another protocol, or for a reply before the body."""


def sent(dice: Dice, asked: Request) -> bytes:
    """Return the bytes of a request. Its length is usually right, and a few bytes may be damaged."""
    data = _framed(dice, asked).wire
    return mangled(dice, data) if dice.once_in(12) else data


def _with_length(asked: Request) -> Request:
    return asked.plus((b"Content-Length", b"%d" % len(asked.body))) if asked.body else asked


def _framed(dice: Dice, asked: Request) -> Request:
    length = len(asked.body)
    if not dice.once_in(6):
        return _with_length(asked)
    how = dice.one_of(["odd", "wrong", "more", "none", "chunked", "both", "coding", "ambiguous", "bare"])
    if how == "odd":
        return asked.plus((b"Content-Length", dice.one_of(fields.LENGTHS).replace(b"#", b"%d" % length)))
    if how == "wrong":
        return asked.plus((b"Content-Length", b"%d" % max(0, length + dice.below(60) - 30)))
    if how == "none":
        return replace(asked.plus((b"Content-Length", b"%d" % (length + 1))), body=b"")
    if how == "more":
        body = asked.body + dice.one_of([asked.body, b"GET /healthz HTTP/1.1\r\n\r\n", b"0\r\n\r\n"])
        return replace(asked.plus((b"Content-Length", b"%d" % length)), body=body)
    if how == "bare":
        return asked
    if how == "ambiguous":
        return asked.plus(*dice.one_of(fields.AMBIGUOUS))
    asked = asked.plus((b"Transfer-Encoding", dice.one_of(fields.CODINGS) if how == "coding" else b"chunked"))
    if how == "both":
        asked = asked.plus((b"Content-Length", b"%d" % length))
    form, half = dice.one_of(fields.CHUNKS), length // 2
    chunks = [form % (half, asked.body[:half]), form % (length - half, asked.body[half:])]
    return replace(asked, body=b"".join(chunks) + dice.one_of(fields.TRAILERS))

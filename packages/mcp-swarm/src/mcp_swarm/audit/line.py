"""What a line says of a call.

    audit          1, the version of this form; every line begins with it
    time           when the call began, UTC
    request_id     as in the access log
    caller         who it was; empty where nobody is asked
    method, name   what was called
    arguments_sha256 (with a key: arguments_hmac_sha256)   of the canonical JSON; absent if there were none
    arguments      those of them that are on the allow-list
    arguments_left_out   true if one on the allow-list is too long to show
    outcome        see `outcome`
    status, ms     of the reply: its HTTP status, and how long it took
    replica, run, seq, prev, hash   see `mcp_swarm.audit.chain`

A line about the log itself has `event` and its details in the place of the call:

    begun          a process begins its run; `after` is the hash of the last line in the file (empty: none), `keyed`
                   whether the hashes need a key
    continued      the same in a new file, after the old one was renamed, removed or emptied
    dropped        `count` calls have no line, since the log couldn't be written
    refused        `count` calls were refused in such a time (`AUDIT_ON_FAILURE=refuse`)
    ended          the process stopped in order, and everything is written

Text from callers is cut, and shown with escapes if one of its characters isn't printable: no line breaks, no control
characters, nothing that changes how the rest is displayed.
"""

import time
from functools import lru_cache

import orjson

from mcp_swarm.audit.call import Noted
from mcp_swarm.audit.chain import Digests
from mcp_swarm.audit.shown import Shown

BEGINNING = b'{"audit":1,'
"""Of every line."""

STATUS_UNAVAILABLE = 503
"""Status of a call that was refused for now, or cancelled."""

_GONE = 499
_LONGEST_NAME = 200
_LONGEST = 100
"""Characters, of everything but a name."""


def outcome(status: int, failed: bool) -> str:
    """How a call ended, in a word.

    `ok`; `failed`: a tool's error, one of JSON-RPC, or one of the server's; `refused`: it was not begun (HTTP 4xx or
    503); `cancelled`: it was begun, and the replica stopped; `gone`: its caller went away before the reply.
    """
    if status == _GONE:
        return "gone"
    if status == STATUS_UNAVAILABLE:
        return "cancelled" if failed else "refused"
    if 400 <= status < 500:
        return "refused"
    return "failed" if failed or status >= 500 else "ok"


class Form:
    """Writes lines, without what chains them: JSON objects that lack their end."""

    def __init__(self, shown: Shown, digests: Digests) -> None:
        self._shown = shown
        self._digest = digests.arguments
        self._digest_name = b"arguments_hmac_sha256" if digests.keyed else b"arguments_sha256"

    def call(self, noted: Noted) -> bytes:
        """A call's. Put together by hand, and of parts that come again, since it is made of each call."""
        name = noted.name[:_LONGEST_NAME]
        who = _who(noted.caller[:_LONGEST], noted.method[:_LONGEST], name)
        return b'%b"time":"%b","request_id":%b,%b%b,"outcome":"%b","status":%d,"ms":%d.%03d' % (
            BEGINNING,
            _utc(noted.time),
            _quoted(noted.request_id[:_LONGEST]),
            who,
            self._arguments(name, noted.arguments) if noted.arguments else b"",
            outcome(noted.status, noted.failed).encode(),
            noted.status,
            *divmod(int(noted.seconds * 1e6), 1000),
        )

    def event(self, event: str, **details: str | int | bool) -> bytes:
        """One about the log itself."""
        said = orjson.dumps({"event": event, **details})[1:-1]
        return b'%b"time":"%b",%b' % (BEGINNING, _utc(time.time()), said)

    def _arguments(self, name: str, arguments: bytes) -> bytes:
        part = b',"%b":"%b"' % (self._digest_name, self._digest(arguments).encode())
        values, too_long = self._shown.pick(name, arguments)
        if values is not None:
            part += b',"arguments":' + values
        if too_long:
            part += b',"arguments_left_out":true'
        return part


@lru_cache(maxsize=256)
def _who(caller: str, method: str, name: str) -> bytes:
    return b'"caller":%b,"method":%b,"name":%b' % (_quoted(caller), _quoted(method), _quoted(name))


def _utc(moment: float) -> bytes:
    second = int(moment)
    return b"%b.%03dZ" % (_clock(second), (moment - second) * 1000)


@lru_cache(maxsize=2)
def _clock(second: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()


def _quoted(text: str) -> bytes:
    """A caller's text as JSON, all of it printable, and as long as it may be."""
    return orjson.dumps(text if text.isprintable() else ascii(text)[1:-1][:_LONGEST_NAME])

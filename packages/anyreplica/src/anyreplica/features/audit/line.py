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
    replica, run, seq, prev, hash   see `anyreplica.features.audit.chain`

An entry about the log itself has the field `event`, and details of the event, in place of the fields about a call. The
events are:

    begun          a process begins its run; `after` is the hash of the last entry in the file (empty: none), and
                   `keyed` says whether the hashes need a key
    continued      a run goes on in a new file, after the old file was renamed, removed or emptied; same details
    dropped        `count` calls have no entry, because the log could not be written
    refused        `count` calls were refused while the log could not be written (`AUDIT_ON_FAILURE=refuse`)
    ended          the process stopped normally, and all entries are written

Text from callers is cut at a limit. If a character is not printable, the text is written with escapes. So an entry
contains no line breaks, no control characters, and nothing that changes how a terminal shows the rest.
"""

import time
from functools import lru_cache

import orjson

from anyreplica.features.audit.call import Noted
from anyreplica.features.audit.chain import Digests
from anyreplica.features.audit.shown import Shown

BEGINNING = b'{"audit":1,'
"""The first bytes of every entry."""

STATUS_UNAVAILABLE = 503
"""HTTP status of a call that the replica refused for now, or cancelled."""

_GONE = 499
_LONGEST_NAME = 200
"""Maximum number of characters in a name."""
_LONGEST = 100
"""Maximum number of characters in a text other than a name."""


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
        self._digest = digests.arguments
        self._digest_name = b"arguments_hmac_sha256" if digests.keyed else b"arguments_sha256"

    def call(self, noted: Noted) -> bytes:
        """Return the entry of a call.

        This method runs for each call, so it builds the JSON by hand and caches the parts that repeat.
        """
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
        """Return an entry about the log itself."""
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
    """Return a text of a caller as JSON with only printable characters, at most as long as a name may be."""
    return orjson.dumps(text if text.isprintable() else ascii(text)[1:-1][:_LONGEST_NAME])

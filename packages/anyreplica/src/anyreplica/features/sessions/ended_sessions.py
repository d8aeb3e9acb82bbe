"""The notes about sessions that their clients have ended. They limit their own number, by caller and altogether.

A session id stays valid until it expires. So the note about an ended session must stay as long.
"""

import math
import time
from typing import TYPE_CHECKING

from anyreplica.auth.caller import digest
from anyreplica.http.limits import Shares
from anyreplica.shared.expiring import Expiring
from anyreplica.shared.script import RedisKey, Script

if TYPE_CHECKING:
    from redis.asyncio import Redis

ENDED_BYTES = 192
"""Bytes that a note counts: its key in Redis."""
_PARTS = 24
"""Number of parts of the time until a note expires. In Redis, the notes that expire in the same part are counted
together. A part has a power of two as its length, so that there are few parts, whenever the sessions began.
"""


def _refusal(most: int, share: int, name: str) -> str:
    """Return the text of the error beyond a limit."""
    if name == "caller":
        whose, limit = "your", f"{share} bytes (a quarter of RESUME_BYTES)"
    else:
        whose, limit = "all", f"{most} bytes (half of RESUME_BYTES)"
    return (
        "The session id stays valid until it expires, because the notes about "
        f"{whose} ended sessions have reached their limit of {limit}."
    )


class LocalEndedSessions:
    """The notes of a single replica, in its memory.

    Args:
        most: maximum number of bytes of all notes. One caller may have half of them.
    """

    def __init__(self, most: int) -> None:
        self._shares = Shares(most)
        self._notes: Expiring[str] = Expiring(lambda caller: self._shares.add(caller, -ENDED_BYTES))

    def __contains__(self, session: str) -> bool:
        return self._notes.get(session) is not None

    def add(self, session: str, expires: float, caller: str) -> str:
        """Note that a session has ended. Return an empty text, or which limit leaves no room for the note."""
        self._notes.expire()
        if session in self:
            return ""
        shares = self._shares
        if shares.room(caller) < ENDED_BYTES:
            name = "caller" if shares.share - shares.used_by(caller) < ENDED_BYTES else "server"
            return _refusal(shares.most, shares.share, name)
        shares.add(caller, ENDED_BYTES)
        self._notes.add(session, caller, max(1.0, expires - time.time()))
        return ""


class RedisEndedSessions:
    """The notes that replicas share, in Redis: one key per session, which expires with the session.

    Args:
        most: maximum number of bytes of all notes. One caller may have half of them.
    """

    def __init__(self, redis: "Redis", prefix: str, most: int) -> None:
        self._most, self._share = most, Shares(most).share
        self._redis = redis
        self._prefix = prefix

    async def add(self, key: str, expires: float, caller: str) -> str:
        """Set the key of a note. Return an empty text, or which limit leaves no room for the note.

        Raises:
            OSError: Redis cannot be reached.
        """
        now = time.time()
        seconds = max(1, math.ceil(expires - now))
        counts = f"{self._prefix}:session_ended_counts"
        script = _AddNote(
            note=key,
            counts_of_caller=f"{counts}:{digest(caller)[:32]}",
            counts_of_all=counts,
            now=int(now),
            seconds=seconds,
            parts=_PARTS,
            most_of_caller=self._share // ENDED_BYTES,
            most=self._most // ENDED_BYTES,
        )
        name = await script.run(self._redis)
        return _refusal(self._most, self._share, name.decode()) if name else ""


class _AddNote(Script[bytes]):
    """Sets the key of a note. Returns an empty text, or whose limit leaves no room for it: `caller` or `server`."""

    note: RedisKey
    counts_of_caller: RedisKey
    counts_of_all: RedisKey
    now: int
    seconds: int
    """Time until the note expires."""
    parts: int
    """See `_PARTS`."""
    most_of_caller: int
    """Maximum number of notes of the caller."""
    most: int
    """Maximum number of all notes."""

    lua = """
if redis.call('EXISTS', note) == 1 then return '' end
local function count(key)
  local sum, found = 0, redis.call('HGETALL', key)
  for index = 1, #found, 2 do
    if tonumber(found[index]) < now then redis.call('HDEL', key, found[index])
    else sum = sum + tonumber(found[index + 1]) end
  end
  return sum
end
if count(counts_of_caller) >= most_of_caller then return 'caller' end
if count(counts_of_all) >= most then return 'server' end
local width = 1
while width * parts < seconds do width = width * 2 end
local ends = math.ceil((now + seconds) / width) * width
for _, counts in ipairs({counts_of_caller, counts_of_all}) do
  redis.call('HINCRBY', counts, ends, 1)
  if redis.call('TTL', counts) < seconds then redis.call('EXPIRE', counts, seconds) end
end
redis.call('SET', note, '', 'EX', seconds)
return ''
"""

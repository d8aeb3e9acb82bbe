"""The records of jobs in Redis, each change of one in a single step.

A worker changes a record by the number of its attempt: one that lost the job meanwhile (it was taken for dead, the job
was cancelled) changes nothing, so that nothing is reported twice.
"""

import hashlib
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from docket import Docket

from server.work.record import FIELDS, LIFETIME, Record, State, read

# KEYS: record, arguments, owner's list, stream, queue, idempotency key if there is one.
# ARGV: id, most jobs, lifetime, rank in the list, arguments, then the record.
_CREATE = """
local there = KEYS[6] and redis.call('GET', KEYS[6])
if there then return {'there', there} end
if redis.call('XLEN', KEYS[4]) + redis.call('ZCARD', KEYS[5]) >= tonumber(ARGV[2]) then return {'full', ''} end
for i = 6, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], ARGV[5], 'EX', ARGV[3])
if KEYS[6] then redis.call('SET', KEYS[6], ARGV[1], 'EX', ARGV[3]) end
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[1])
redis.call('EXPIRE', KEYS[3], ARGV[3])
return {'new', ARGV[1]}
"""

# KEYS: record.  ARGV: now, lifetime.
_CLAIM = """
local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'pending' and state ~= 'running' then return 0 end
redis.call('HSET', KEYS[1], 'state', 'running', 'started', ARGV[1], 'progress', '0', 'message', '')
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HINCRBY', KEYS[1], 'attempts', 1)
"""

# KEYS: record.  ARGV: attempt, then fields to set.
_CHANGE = """
if redis.call('HGET', KEYS[1], 'state') ~= 'running' then return 0 end
if redis.call('HGET', KEYS[1], 'attempts') ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""

# KEYS: record, arguments, result.
# ARGV: attempt ('' of whoever cancels), seconds to keep it, result, then fields to set.
_FINISH = """
local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'pending' and state ~= 'running' then return 0 end
if ARGV[1] ~= '' and redis.call('HGET', KEYS[1], 'attempts') ~= ARGV[1] then return 0 end
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('DEL', KEYS[2])
if ARGV[3] ~= '' then redis.call('SET', KEYS[3], ARGV[3], 'EX', ARGV[2]) end
return 1
"""


@dataclass(frozen=True)
class Claim:
    """A job that a worker may run now."""

    record: Record
    attempt: int
    failures: int
    """How many of its attempts raised; the others before this one were lost with their worker."""
    arguments: bytes


class Store:
    """Records by id, in the Redis of a docket.

    Every method raises RedisError or OSError while Redis can't be reached.

    Args:
        most: jobs that may wait or run.
    """

    def __init__(self, docket: Docket, most: int) -> None:
        self._docket = docket
        self._most = most

    async def create(self, record: Record, arguments: str, idempotency_key: str | None) -> str | None:
        """Keep a new job; returns its id, or the id of the one that its key made before; None: there are too many."""
        values = {name: getattr(record, name) for name in FIELDS}
        flat = [text for name, value in values.items() if value is not None for text in (name, _text(value))]
        keys = [self._key(record.id), self._arguments(record.id), self._list(record.owner)]
        keys += [self._docket.stream_key, self._docket.queue_key]
        if idempotency_key is not None:
            keys.append(self._idempotency(record.owner, idempotency_key))
        # Newest first, by a rank that grows with age.
        head = [record.id, str(self._most), str(LIFETIME), _text(-record.submitted), arguments]
        how, identity = await self._run(_CREATE, keys, [*head, *flat])
        return None if how == b"full" else identity.decode()

    async def load(self, identity: str) -> Record | None:
        """A job's record."""
        async with self._redis() as redis:
            return read(await redis.hgetall(self._key(identity)))

    async def result(self, identity: str) -> bytes | None:
        """A completed job's result, as JSON."""
        async with self._redis() as redis:
            result: bytes | None = await redis.get(self._result(identity))
            return result

    async def of(self, owner: str, limit: int, after: str | None) -> tuple[list[Record], str | None]:
        """An owner's jobs, newest first.

        Args:
            after: an id, where the page before ended.

        Returns:
            The records, and where this page ended if there are more.

        Raises:
            KeyError: `after` isn't in the list.
        """
        index, found = self._list(owner), list[Record]()
        async with self._redis() as redis:
            first = 0
            if after is not None:
                rank = await redis.zscore(index, after)
                if rank is None:
                    raise KeyError(after)
                first = await redis.zcount(index, "-inf", rank)
            while len(found) <= limit and (ids := await redis.zrange(index, first, first + limit - len(found))):
                records = {identity: await self.load(identity.decode()) for identity in ids}
                found += [record for record in records.values() if record is not None]
                if gone := [identity for identity, record in records.items() if record is None]:
                    await redis.zrem(index, *gone)
                first += len(ids) - len(gone)
        return found[:limit], (found[limit - 1].id if len(found) > limit else None)

    async def claim(self, identity: str) -> Claim | None:
        """Begin an attempt; None if the job is gone, or finished."""
        now = _text(time.time())
        if not (attempt := int(await self._run(_CLAIM, [self._key(identity)], [now, str(LIFETIME)]))):
            return None
        async with self._redis() as redis:
            values = await redis.hgetall(self._key(identity))
            arguments = await redis.get(self._arguments(identity))
        record = read(values)
        return Claim(record, attempt, int(values.get(b"failures", 0)), arguments or b"") if record else None

    async def progress(self, identity: str, attempt: int, percent: float, message: str) -> bool:
        """Note how far an attempt is; False if the job isn't its any more."""
        return await self._change(identity, attempt, progress=_text(percent), message=message)

    async def give_back(self, identity: str, attempt: int, *, failures: int, counts: bool) -> bool:
        """Let the job wait for another attempt; False if it isn't this one's any more.

        Args:
            failures: how many attempts have raised by now.
            counts: whether this one is to be counted.
        """
        attempts = str(attempt if counts else attempt - 1)
        fields = {"state": "pending", "attempts": attempts, "failures": str(failures), "progress": "0", "message": ""}
        return await self._change(identity, attempt, **fields)

    async def finish(self, claim: Claim, state: State, *, error: str = "", result: str | None = None) -> bool:
        """End a job with the outcome of an attempt; False if it isn't this one's any more."""
        fields = {"state": state, "error": error, "finished": _text(time.time())}
        if result is not None:
            fields |= {"progress": "100", "message": ""}
        return await self._finish(claim.record, str(claim.attempt), fields, result or "")

    async def end(self, record: Record, state: State, error: str = "") -> bool:
        """End a job, whoever runs it; False if it had ended."""
        return await self._finish(record, "", {"state": state, "error": error, "finished": _text(time.time())})

    async def _finish(self, record: Record, attempt: str, fields: dict[str, str], result: str = "") -> bool:
        flat = [text for pair in fields.items() for text in pair]
        keys = [self._key(record.id), self._arguments(record.id), self._result(record.id)]
        return bool(await self._run(_FINISH, keys, [attempt, str(max(1, round(record.kept))), result, *flat]))

    async def _change(self, identity: str, attempt: int, **fields: str) -> bool:
        flat = [text for pair in fields.items() for text in pair]
        return bool(await self._run(_CHANGE, [self._key(identity)], [str(attempt), *flat]))

    async def _run(self, script: str, keys: list[str], arguments: list[str]) -> Any:
        async with self._redis() as redis:
            return await redis.eval(script, len(keys), *keys, *arguments)

    def _redis(self) -> AbstractAsyncContextManager[Any]:
        """A client; Docket's type of it knows few of its commands."""
        return self._docket.redis()

    def _key(self, identity: str) -> str:
        return self._docket.key(f"job:{identity}")

    def _arguments(self, identity: str) -> str:
        return self._docket.key(f"arguments:{identity}")

    def _result(self, identity: str) -> str:
        return self._docket.key(f"result:{identity}")

    def _list(self, owner: str) -> str:
        return self._docket.key(f"jobs-of:{owner}")

    def _idempotency(self, owner: str, key: str) -> str:
        digest = hashlib.sha256(f"{owner} {key}".encode()).hexdigest()
        return self._docket.key(f"idempotency:{digest}")


def _text(value: object) -> str:
    return f"{value:.6f}" if isinstance(value, float) else str(value)

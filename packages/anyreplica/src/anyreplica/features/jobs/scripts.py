"""The Redis scripts of the job records. Each of them changes a record in one step."""

from typing import Any

from anyreplica.shared.script import RedisKey, RedisKeys, Result, Script


class _Places(Script[Result]):
    """The first part of the scripts that create and end a job: functions that count the unfinished jobs."""

    unfinished: RedisKey
    """The unfinished jobs with their times of submission."""
    sizes: RedisKey
    """The size and the owner of each of them."""
    totals: RedisKey

    lua = """
local function total(name) return tonumber(redis.call('HGET', totals, name) or '0') end
local function add(name, change)
  if redis.call('HINCRBY', totals, name, change) <= 0 then redis.call('HDEL', totals, name) end
end
local function release(job)
  redis.call('ZREM', unfinished, job)
  local place = redis.call('HGET', sizes, job)
  if not place then return end
  redis.call('HDEL', sizes, job)
  local size, owner_of_place = string.match(place, '^(%d+) (.*)$')
  add('bytes', -tonumber(size))
  add('bytes of ' .. owner_of_place, -tonumber(size))
  add('jobs of ' .. owner_of_place, -1)
end
"""


class CreateJob(_Places[list[bytes]]):
    """Creates a job, unless its idempotency key was used before or the queue is full.

    Returns two texts: `new` or `there` (the key was used before) and the id of the job; or the name of the limit that
    was reached and an empty text.
    """

    record: RedisKey
    arguments: RedisKey
    jobs_of_owner: RedisKey
    idempotency: RedisKeys
    """The idempotency key, if the submission has one."""
    id: str
    owner: str
    most: int
    """Maximum number of unfinished jobs."""
    most_of_owner: int
    most_bytes: int
    """Maximum number of bytes of their arguments."""
    most_bytes_of_owner: int
    lifetime: int
    interrupted_seconds: int
    """Number of seconds after which a job that is not in the queue counts as interrupted."""
    now: str
    record_prefix: str
    """Beginning of the keys of the records."""
    arguments_prefix: str
    arguments_json: str
    values: list[str]
    """The names and values of the record's fields."""

    lua = """
local key = KEYS[idempotency_start]
local size = #arguments_json
local there = key and redis.call('GET', key)
if there and there ~= id then return {'there', there} end
local function clean()
  local ended = tostring(tonumber(now) - lifetime)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', unfinished, '-inf', ended, 'LIMIT', 0, 100)) do
    release(old)
  end
  -- The replica of an interrupted submission has ended before the job was in the queue. No worker finds such a job.
  local late = tostring(tonumber(now) - interrupted_seconds)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', unfinished, '-inf', late, 'LIMIT', 0, 10)) do
    local its_record = record_prefix .. old
    local state, queued = redis.call('HGET', its_record, 'state'), redis.call('HGET', its_record, 'queued')
    if not state or state == 'pending' and (not queued or queued == '') then
      local its_key = redis.call('HGET', its_record, 'key')
      if its_key and its_key ~= '' then redis.call('DEL', its_key) end
      redis.call('DEL', its_record, arguments_prefix .. old)
      release(old)
    end
  end
end
local function limit()
  if redis.call('ZCARD', unfinished) >= most then return 'jobs' end
  if total('jobs of ' .. owner) >= most_of_owner then return 'jobs of the caller' end
  if total('bytes') + size > most_bytes then return 'bytes' end
  if total('bytes of ' .. owner) + size > most_bytes_of_owner then return 'bytes of the caller' end
end
clean()
if not there then
  local reached = limit()
  if reached and redis.call('SET', totals .. ':checked', '1', 'NX', 'EX', 10) then
    -- A worker of an older version does not give a place back when its job ends.
    local places = redis.call('HGETALL', sizes)
    for i = 1, #places, 2 do
      if not redis.call('ZSCORE', unfinished, places[i]) then release(places[i]) end
    end
    reached = limit()
  end
  if reached then return {reached, ''} end
end
for i = values_start, #ARGV, 2 do redis.call('HSET', record, ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', record, lifetime)
redis.call('SET', arguments, arguments_json, 'EX', lifetime)
if key then redis.call('SET', key, id, 'EX', lifetime) end
for _, old in ipairs(redis.call('ZRANGE', jobs_of_owner, 0, 9)) do
  if redis.call('EXISTS', record_prefix .. old) == 0 then redis.call('ZREM', jobs_of_owner, old) end
end
if not redis.call('HGET', sizes, id) then
  redis.call('HSET', sizes, id, size .. ' ' .. owner)
  add('bytes', size)
  add('bytes of ' .. owner, size)
  add('jobs of ' .. owner, 1)
end
redis.call('ZADD', jobs_of_owner, now, id)
redis.call('ZADD', unfinished, now, id)
for _, each in ipairs({jobs_of_owner, unfinished, sizes, totals}) do redis.call('EXPIRE', each, lifetime) end
return {'new', id}
"""


class NoteQueued(Script[int]):
    """Notes that a job is in the queue, and sets an expiry for Docket's keys of the job.

    Returns 0 if this Redis has no record of the job, or if the job is pending but not in the queue; otherwise 1.
    """

    record: RedisKey
    run_of_docket: RedisKey
    others_of_docket: RedisKeys
    """Docket's other keys of the job without an expiry."""
    lifetime: int

    lua = """
redis.call('EXPIRE', run_of_docket, lifetime)
for i = others_of_docket_start, #KEYS do redis.call('EXPIRE', KEYS[i], lifetime) end
local state = redis.call('HGET', record, 'state')
if not state then return 0 end
redis.call('HSET', record, 'queued', '1')
if state == 'pending' then return redis.call('EXISTS', run_of_docket) end
return 1
"""


class ClaimJob(Script[int]):
    """Starts an attempt, and returns its number.

    Returns 0 if the job has ended or is deleted. If too many attempts were lost, it starts none, and returns the number
    of attempts with a minus sign.
    """

    record: RedisKey
    now: str
    lifetime: int
    most_lost: int
    """Maximum number of lost attempts."""

    lua = """
local state = redis.call('HGET', record, 'state')
if state ~= 'pending' and state ~= 'running' then return 0 end
local attempts = tonumber(redis.call('HGET', record, 'attempts') or '0')
local failures = tonumber(redis.call('HGET', record, 'failures') or '0')
if attempts - failures >= most_lost then return -attempts end
redis.call('HSET', record, 'state', 'running', 'started', now, 'progress', '0', 'message', '')
redis.call('EXPIRE', record, lifetime)
return redis.call('HINCRBY', record, 'attempts', 1)
"""


class ChangeJob(Script[int]):
    """Sets fields of a record. Returns 1, or 0 if the attempt no longer holds the job."""

    record: RedisKey
    attempt: str
    values: list[str]
    """The names and values of the fields."""

    lua = """
if redis.call('HGET', record, 'state') ~= 'running' then return 0 end
if redis.call('HGET', record, 'attempts') ~= attempt then return 0 end
for i = values_start, #ARGV, 2 do redis.call('HSET', record, ARGV[i], ARGV[i + 1]) end
return 1
"""


class RequeueJob(Script[int]):
    """Sets a job back to pending, and fields of its record. Returns 1, or 0 if the attempt no longer holds the job.

    A retry after a lost reply returns the same value.
    """

    record: RedisKey
    attempt: str
    values: list[str]
    """The names and values of the fields."""

    lua = """
local state = redis.call('HGET', record, 'state')
if state == 'pending' and redis.call('HGET', record, 'given_back') == attempt then return 1 end
if state ~= 'running' or redis.call('HGET', record, 'attempts') ~= attempt then return 0 end
for i = values_start, #ARGV, 2 do redis.call('HSET', record, ARGV[i], ARGV[i + 1]) end
redis.call('HSET', record, 'state', 'pending', 'started', '', 'progress', '0', 'message', '', 'given_back', attempt)
return 1
"""


class FinishJob(_Places[int]):
    """Ends a job. Returns 1, or 0 if the job has ended before or the attempt no longer holds the job."""

    record: RedisKey
    arguments: RedisKey
    result: RedisKey
    counts: RedisKey
    """The numbers of ended jobs."""
    idempotency: RedisKeys
    """The idempotency key, if the job has one."""
    attempt: str
    """Empty: whichever attempt holds the job."""
    retention: int
    """Number of seconds for which the job stays."""
    id: str
    result_json: str
    """The result of the job; empty if it has none."""
    lifetime: int
    values: list[str]
    """The names and values of the record's fields."""

    lua = """
local key = KEYS[idempotency_start]
local state = redis.call('HGET', record, 'state')
if state ~= 'pending' and state ~= 'running' then return 0 end
if attempt ~= '' and redis.call('HGET', record, 'attempts') ~= attempt then return 0 end
for i = values_start, #ARGV, 2 do redis.call('HSET', record, ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', record, retention)
local how = redis.call('HGET', record, 'job') .. ':' .. redis.call('HGET', record, 'state')
redis.call('HINCRBY', counts, how, 1)
redis.call('EXPIRE', counts, lifetime)
redis.call('DEL', arguments)
if result_json ~= '' then redis.call('SET', result, result_json, 'EX', retention) end
release(id)
if key then redis.call('EXPIRE', key, retention) end
return 1
"""


class CountJobs(Script[list[Any]]):
    """Counts the unfinished jobs.

    Returns the number of waiting jobs, the number of running jobs, and the submission time of the oldest waiting job.
    """

    unfinished: RedisKey
    record_prefix: str
    """Beginning of the keys of the records."""

    lua = """
local waiting, running, oldest = 0, 0, ''
local found = redis.call('ZRANGE', unfinished, 0, -1, 'WITHSCORES')
for i = 1, #found, 2 do
  local state = redis.call('HGET', record_prefix .. found[i], 'state')
  if state == 'running' then
    running = running + 1
  elseif state == 'pending' then
    if waiting == 0 then oldest = found[i + 1] end
    waiting = waiting + 1
  end
end
return {waiting, running, oldest}
"""

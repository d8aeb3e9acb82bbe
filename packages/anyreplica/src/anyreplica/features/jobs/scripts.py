"""The Redis scripts of the job records. Each of them changes a record in one step."""

_PLACES = """
local unfinished, sizes, totals = KEYS[1], KEYS[2], KEYS[3]
local function total(name) return tonumber(redis.call('HGET', totals, name) or '0') end
local function add(name, change)
  if redis.call('HINCRBY', totals, name, change) <= 0 then redis.call('HDEL', totals, name) end
end
local function release(id)
  redis.call('ZREM', unfinished, id)
  local place = redis.call('HGET', sizes, id)
  if not place then return end
  redis.call('HDEL', sizes, id)
  local size, owner = string.match(place, '^(%d+) (.*)$')
  add('bytes', -tonumber(size))
  add('bytes of ' .. owner, -tonumber(size))
  add('jobs of ' .. owner, -1)
end
"""
"""The places of unfinished jobs: functions for CREATE and FINISH, whose first three keys are these.

KEYS: unfinished jobs with their times of submission, size and owner by job, totals.
"""

# Create a job, unless its idempotency key was used before or the queue is full.
# KEYS: those of the places, then record, arguments, list of the owner's jobs, idempotency key (optional).
# ARGV: id, owner, maximum number of unfinished jobs, maximum number of those of the owner, maximum number of bytes of
# their arguments, maximum number of those of the owner, lifetime, number of seconds after which a job that is not in
# the queue counts as interrupted, now, prefix of the records' keys, prefix of the arguments' keys, arguments, then the
# record's fields.
# Returns two texts: `new` or `there` (the key was used before) and the id of the job; or the name of the limit that
# was reached and an empty text.
CREATE = (
    _PLACES
    + """
local record, arguments, list, key = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local id, owner, size, now, lifetime = ARGV[1], ARGV[2], #ARGV[12], tonumber(ARGV[9]), tonumber(ARGV[7])
local there = key and redis.call('GET', key)
if there and there ~= id then return {'there', there} end
local function clean()
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', unfinished, '-inf', tostring(now - lifetime), 'LIMIT', 0, 100)) do
    release(old)
  end
  -- The replica of an interrupted submission has ended before the job was in the queue. No worker finds such a job.
  local late = tostring(now - tonumber(ARGV[8]))
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', unfinished, '-inf', late, 'LIMIT', 0, 10)) do
    local its_record = ARGV[10] .. old
    local state, queued = redis.call('HGET', its_record, 'state'), redis.call('HGET', its_record, 'queued')
    if not state or state == 'pending' and (not queued or queued == '') then
      local its_key = redis.call('HGET', its_record, 'key')
      if its_key and its_key ~= '' then redis.call('DEL', its_key) end
      redis.call('DEL', its_record, ARGV[11] .. old)
      release(old)
    end
  end
end
local function limit()
  if redis.call('ZCARD', unfinished) >= tonumber(ARGV[3]) then return 'jobs' end
  if total('jobs of ' .. owner) >= tonumber(ARGV[4]) then return 'jobs of the caller' end
  if total('bytes') + size > tonumber(ARGV[5]) then return 'bytes' end
  if total('bytes of ' .. owner) + size > tonumber(ARGV[6]) then return 'bytes of the caller' end
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
for i = 13, #ARGV, 2 do redis.call('HSET', record, ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', record, lifetime)
redis.call('SET', arguments, ARGV[12], 'EX', lifetime)
if key then redis.call('SET', key, id, 'EX', lifetime) end
for _, old in ipairs(redis.call('ZRANGE', list, 0, 9)) do
  if redis.call('EXISTS', ARGV[10] .. old) == 0 then redis.call('ZREM', list, old) end
end
if not redis.call('HGET', sizes, id) then
  redis.call('HSET', sizes, id, size .. ' ' .. owner)
  add('bytes', size)
  add('bytes of ' .. owner, size)
  add('jobs of ' .. owner, 1)
end
redis.call('ZADD', list, ARGV[9], id)
redis.call('ZADD', unfinished, ARGV[9], id)
for _, each in ipairs({list, unfinished, sizes, totals}) do redis.call('EXPIRE', each, lifetime) end
return {'new', id}
"""
)

# Note that a job is in the queue, and set an expiry for Docket's keys of the job.
# KEYS: record, Docket's key of the run, then Docket's other keys without an expiry.  ARGV: lifetime.
# Returns 0 if this Redis has no record of the job, or if the job is pending but not in the queue. Otherwise returns 1.
QUEUED = """
for i = 2, #KEYS do redis.call('EXPIRE', KEYS[i], ARGV[1]) end
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 0 end
redis.call('HSET', KEYS[1], 'queued', '1')
if state == 'pending' then return redis.call('EXISTS', KEYS[2]) end
return 1
"""

# Start an attempt.
# KEYS: record.  ARGV: now, lifetime, maximum number of lost attempts.
# Returns the number of the new attempt. Returns 0 if the job has ended or is deleted. Returns a negative number if too
# many attempts were lost: minus the number of attempts.
CLAIM = """
local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'pending' and state ~= 'running' then return 0 end
local attempts = tonumber(redis.call('HGET', KEYS[1], 'attempts') or '0')
local failures = tonumber(redis.call('HGET', KEYS[1], 'failures') or '0')
if attempts - failures >= tonumber(ARGV[3]) then return -attempts end
redis.call('HSET', KEYS[1], 'state', 'running', 'started', ARGV[1], 'progress', '0', 'message', '')
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('HINCRBY', KEYS[1], 'attempts', 1)
"""

# Set fields of a record, if the attempt still holds the job.
# KEYS: record.  ARGV: attempt, then fields to set.  Returns 1, or 0 if the attempt no longer holds the job.
CHANGE = """
if redis.call('HGET', KEYS[1], 'state') ~= 'running' then return 0 end
if redis.call('HGET', KEYS[1], 'attempts') ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""

# Set a job back to pending. KEYS, ARGV and reply as in CHANGE. A retry after a lost reply returns the same value.
GIVE_BACK = """
local state = redis.call('HGET', KEYS[1], 'state')
if state == 'pending' and redis.call('HGET', KEYS[1], 'given_back') == ARGV[1] then return 1 end
if state ~= 'running' or redis.call('HGET', KEYS[1], 'attempts') ~= ARGV[1] then return 0 end
for i = 2, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('HSET', KEYS[1], 'state', 'pending', 'started', '', 'progress', '0', 'message', '', 'given_back', ARGV[1])
return 1
"""

# End a job.
# KEYS: those of the places, then record, arguments, result, counts of ended jobs, idempotency key (optional).
# ARGV: attempt ('': whichever attempt holds the job), retention in seconds, id, result, lifetime, then fields to set.
# Returns 1, or 0 if the job has ended before or the attempt no longer holds the job.
FINISH = (
    _PLACES
    + """
local record, arguments, result, counts, key = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local state = redis.call('HGET', record, 'state')
if state ~= 'pending' and state ~= 'running' then return 0 end
if ARGV[1] ~= '' and redis.call('HGET', record, 'attempts') ~= ARGV[1] then return 0 end
for i = 6, #ARGV, 2 do redis.call('HSET', record, ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', record, ARGV[2])
local how = redis.call('HGET', record, 'job') .. ':' .. redis.call('HGET', record, 'state')
redis.call('HINCRBY', counts, how, 1)
redis.call('EXPIRE', counts, ARGV[5])
redis.call('DEL', arguments)
if ARGV[4] ~= '' then redis.call('SET', result, ARGV[4], 'EX', ARGV[2]) end
release(ARGV[3])
if key then redis.call('EXPIRE', key, ARGV[2]) end
return 1
"""
)

# Count the unfinished jobs.
# KEYS: unfinished jobs.  ARGV: prefix of the records' keys.
# Returns the number of waiting jobs, the number of running jobs, and the submission time of the oldest waiting job.
COUNT = """
local waiting, running, oldest = 0, 0, ''
local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #found, 2 do
  local state = redis.call('HGET', ARGV[1] .. found[i], 'state')
  if state == 'running' then
    running = running + 1
  elseif state == 'pending' then
    if waiting == 0 then oldest = found[i + 1] end
    waiting = waiting + 1
  end
end
return {waiting, running, oldest}
"""

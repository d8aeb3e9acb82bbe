#!/bin/sh
# Starts the Redis of jobs. Its password is the one of the secret jobs_url. It comes by way of stdin (the last dash),
# because everybody on the node can see arguments.
#
# With REDIS_SENTINELS, the names of all Sentinels, this Redis is one of several, and REDIS_NAME is its own name. It asks
# the Sentinels which Redis is the master. If it is another one, this Redis copies it. So a Redis that comes back with
# old data doesn't become the master. More than half of the Sentinels must answer, as more than half choose a master.
set -eu
secret=${JOBS_URL_FILE:-/run/secrets/jobs_url}
password=$(sed -n 's|^redis[^:]*://:\([[:alnum:]]\{1,\}\)@.*|\1|p' "$secret")
if [ -z "$password" ]; then
  echo 'The secret jobs_url has no password of letters and digits, as in redis://:PASSWORD@redis:6379/0' >&2
  exit 1
fi

# ask HOST PORT COMMAND: what a Redis or a Sentinel answers; nothing if it doesn't.
ask() {
  host=$1 port=$2
  shift 2
  REDISCLI_AUTH=$password timeout 2 redis-cli -h "$host" -p "$port" "$@" 2>/dev/null || true
}

# The master by the Sentinel that knows the newest change; nothing without a majority.
find_master() {
  for sentinel in $REDIS_SENTINELS; do
    change=$(ask "$sentinel" 26379 sentinel master jobs | awk 'field == "config-epoch" { print; exit } { field = $0 }')
    name=$(ask "$sentinel" 26379 sentinel get-master-addr-by-name jobs | head -n 1)
    if [ -n "$change" ] && [ -n "$name" ]; then echo "$change $name"; fi
  done | sort -rn | awk -v majority="$1" 'NR == 1 { name = $2 } END { if (NR >= majority) print name }'
}

if [ -n "${REDIS_SENTINELS:-}" ]; then
  majority=$(($(echo "$REDIS_SENTINELS" | wc -w) / 2 + 1))
  tries=0
  while :; do
    master=$(find_master "$majority")
    if [ -z "$master" ]; then
      echo "Waiting for $majority of the Sentinels $REDIS_SENTINELS to say which Redis is the master"
    elif [ "$master" = "$REDIS_NAME" ]; then
      break
    # A copy that is started has nothing to show how new its data is. It waits for the master for half a minute, so that
    # it isn't chosen in place of a copy that ran all the time.
    elif [ "$(ask "$master" 6379 ping)" = PONG ] || [ "$tries" -ge 30 ]; then
      set -- --replicaof "$master" 6379 "$@"
      break
    else
      tries=$((tries + 1))
    fi
    sleep 1
  done
  set -- --replica-announce-ip "$REDIS_NAME" "$@"
fi

# everysec: a power cut can take the last second with it; "always" would let each submission wait for the disk.
# No snapshots (save ''): the append-only file holds all that they would.
# 256mb: 10,000 jobs that wait or run (JOBS_MAX_PENDING) with 10 kB each are 100 MB; the rest is for what finished
# jobs leave for an hour (JOBS_RETENTION_SECONDS). noeviction: a full Redis refuses more, and drops nothing.
exec redis-server --dir "${REDIS_DATA:-/data}" --appendonly yes --appendfsync everysec --save '' \
  --maxmemory 256mb --maxmemory-policy noeviction "$@" - <<END
requirepass $password
masterauth $password
END

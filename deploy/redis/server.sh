#!/bin/sh
# Start the Redis server for jobs. Its password comes from the secret jobs_url. The script passes the password on stdin
# (the last dash), because every process on the node can read the arguments of a command.
#
# If REDIS_SENTINELS (the names of all Sentinels) is set, this Redis is one of several, and REDIS_NAME is its name. It
# asks the Sentinels which Redis is the master. If the master is another Redis, this Redis becomes a copy of the master.
# So a Redis that restarts with old data does not become the master. More than half of the Sentinels must answer,
# because more than half of them elect a master.
set -eu
secret=${JOBS_URL_FILE:-/run/secrets/jobs_url}
password=$(sed -n 's|^redis[^:]*://:\([[:alnum:]]\{1,\}\)@.*|\1|p' "$secret")
if [ -z "$password" ]; then
  echo 'Secret jobs_url: it needs a password of letters and digits, like redis://:PASSWORD@redis:6379/0' >&2
  exit 1
fi

# ask HOST PORT COMMAND: print the reply of a Redis or a Sentinel; print nothing if there is no reply within 2 s.
ask() {
  host=$1 port=$2
  shift 2
  REDISCLI_AUTH=$password timeout 2 redis-cli -h "$host" -p "$port" "$@" 2>/dev/null || true
}

# find_master MAJORITY: print the master from the Sentinel with the newest configuration; print nothing if fewer than
# MAJORITY Sentinels answer.
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
      echo "Waiting for the master: at least $majority of the Sentinels $REDIS_SENTINELS must answer"
    elif [ "$master" = "$REDIS_NAME" ]; then
      break
    # A Redis that has just started can't prove how new its data is. It waits up to 30 s for the master. Without this
    # wait, the Sentinels could promote it instead of a copy that ran all the time.
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

# appendfsync everysec: a power failure can lose the last second. With "always", each submission waits for the disk.
# save '': no snapshots, because the append-only file contains the same data.
# maxmemory 256mb: 10,000 waiting or running jobs (JOBS_MAX_PENDING) with 10 kB each need 100 MB. The rest is for the
# results of finished jobs, which stay for one hour (JOBS_RETENTION_SECONDS).
# maxmemory-policy noeviction: a full Redis refuses new data and keeps all old data.
exec redis-server --dir "${REDIS_DATA:-/data}" --appendonly yes --appendfsync everysec --save '' \
  --maxmemory 256mb --maxmemory-policy noeviction "$@" - <<END
requirepass $password
masterauth $password
END

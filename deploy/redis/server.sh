#!/bin/sh
# Starts the Redis of jobs. Its password is the one of the secret jobs_url; it comes by way of stdin (the last dash),
# since all who are on the node can see arguments.
#
# REDIS_SENTINELS, the names of all Sentinels: this Redis is one of several, REDIS_NAME. It asks the Sentinels which one
# is the master, and copies that one unless it is itself. So one that comes back from a lost node with old data never
# takes itself for the master. It waits for the answers of more than half of the Sentinels: at least one of these knows
# of the last change.
set -eu
secret=${JOBS_URL_FILE:-/run/secrets/jobs_url}
password=$(sed -n 's|^redis[^:]*://:\([[:alnum:]]\{1,\}\)@.*|\1|p' "$secret")
if [ -z "$password" ]; then
  echo 'The secret jobs_url is not redis://:PASSWORD@redis:6379/0 with a password of letters and digits' >&2
  exit 1
fi

# Each Sentinel's number of the last change, and the master that it knows of.
ask_sentinels() {
  for sentinel in $REDIS_SENTINELS; do
    REDISCLI_AUTH=$password timeout 2 redis-cli -h "$sentinel" -p 26379 sentinel master jobs 2>/dev/null |
      awk 'NR % 2 { field = $0; next }
           field == "ip" { master = $0 }
           field == "config-epoch" { print $0, master }' || true
  done
}

if [ -n "${REDIS_SENTINELS:-}" ]; then
  majority=$(($(echo "$REDIS_SENTINELS" | wc -w) / 2 + 1))
  master=
  until [ -n "$master" ]; do
    answers=$(ask_sentinels | sort -rn)
    if [ "$(echo "$answers" | grep -c .)" -ge "$majority" ]; then
      master=$(echo "$answers" | awk 'NR == 1 { print $2 }')
    else
      echo "Waiting for $majority of the Sentinels $REDIS_SENTINELS to say which Redis is the master"
      sleep 1
    fi
  done
  set -- --replica-announce-ip "$REDIS_NAME" "$@"
  if [ "$master" != "$REDIS_NAME" ]; then set -- --replicaof "$master" 6379 "$@"; fi
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

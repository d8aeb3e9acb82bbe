#!/bin/sh
# Starts a Sentinel, which watches the Redis servers of jobs. When most of the Sentinels haven't reached the master for
# 3 s, they make one of the copies the master. A Sentinel keeps what it knows in a file of its volume, so that it knows
# the master after all nodes were down.
set -eu
secret=${JOBS_URL_FILE:-/run/secrets/jobs_url}
password=$(sed -n 's|^redis+sentinel://:\([[:alnum:]]\{1,\}\)@.*|\1|p' "$secret")
if [ -z "$password" ]; then
  echo 'The secret jobs_url has no password of letters and digits, as in redis+sentinel://:PASSWORD@sentinel-1/jobs' >&2
  exit 1
fi
quorum=$(($(echo "$REDIS_SENTINELS" | wc -w) / 2 + 1))
umask 077
file=${REDIS_DATA:-/data}/sentinel.conf
if [ ! -s "$file" ]; then
  # First start: the server named redis is the master. Sentinels use names, because a container gets a new address at
  # each start.
  cat >"$file" <<END
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $SENTINEL_NAME
sentinel monitor jobs redis 6379 $quorum
sentinel down-after-milliseconds jobs 3000
sentinel failover-timeout jobs 10000
END
fi
# The secret may have changed, so the password is written again. Sentinel also writes it into the line "user default".
grep -v -e '^requirepass ' -e '^user default ' -e '^sentinel auth-pass ' -e '^sentinel sentinel-pass ' "$file" >"$file.new" || true
cat >>"$file.new" <<END
requirepass $password
sentinel sentinel-pass $password
sentinel auth-pass jobs $password
END
mv "$file.new" "$file"
exec redis-server "$file" --sentinel "$@"

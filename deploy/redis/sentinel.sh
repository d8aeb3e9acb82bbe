#!/bin/sh
# Start a Sentinel, which watches the Redis servers for jobs. If more than half of the Sentinels can't reach the master
# for 3 s, they promote one of the copies to master. A Sentinel stores its state in a file on its volume. So it finds
# the master again after an outage of all nodes.
set -eu
secret=${JOBS_URL_FILE:-/run/secrets/jobs_url}
password=$(sed -n 's|^redis+sentinel://:\([[:alnum:]]\{1,\}\)@.*|\1|p' "$secret")
if [ -z "$password" ]; then
  echo 'Secret jobs_url: it needs a password of letters and digits, like redis+sentinel://:PASSWORD@sentinel-1/jobs' >&2
  exit 1
fi
quorum=$(($(echo "$REDIS_SENTINELS" | wc -w) / 2 + 1))
umask 077
file=${REDIS_DATA:-/data}/sentinel.conf
if [ ! -s "$file" ]; then
  # At the first start, the server named redis is the master. Sentinels use names instead of addresses, because a
  # container gets a new address at each start.
  cat >"$file" <<END
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $SENTINEL_NAME
sentinel monitor jobs redis 6379 $quorum
sentinel down-after-milliseconds jobs 3000
sentinel failover-timeout jobs 10000
END
fi
# Write the password again at each start, because the secret may have changed. Sentinel itself also writes the password
# into the line "user default".
grep -v -e '^requirepass ' -e '^user default ' -e '^sentinel auth-pass ' -e '^sentinel sentinel-pass ' "$file" >"$file.new" || true
cat >>"$file.new" <<END
requirepass $password
sentinel sentinel-pass $password
sentinel auth-pass jobs $password
END
mv "$file.new" "$file"
exec redis-server "$file" --sentinel "$@"

#!/bin/sh
# Starts a Sentinel, which watches the Redis servers of jobs: when most of the Sentinels miss the master for 3 s, they
# make one of the copies the master. What a Sentinel has learnt is in a file of its volume, so that it knows the master
# when all nodes were away.
set -eu
secret=${JOBS_URL_FILE:-/run/secrets/jobs_url}
password=$(sed -n 's|^redis+sentinel://:\([[:alnum:]]\{1,\}\)@.*|\1|p' "$secret")
if [ -z "$password" ]; then
  echo 'The secret jobs_url is not redis+sentinel://:PASSWORD@sentinel-1,…/jobs with a password of letters and digits' >&2
  exit 1
fi
quorum=$(($(echo "$REDIS_SENTINELS" | wc -w) / 2 + 1))
umask 077
file=${REDIS_DATA:-/data}/sentinel.conf
if [ ! -s "$file" ]; then
  # The first start of all: redis is the master. Names, since a container's address changes when it is started again.
  cat >"$file" <<END
sentinel resolve-hostnames yes
sentinel announce-hostnames yes
sentinel announce-ip $SENTINEL_NAME
sentinel monitor jobs redis 6379 $quorum
sentinel down-after-milliseconds jobs 3000
sentinel failover-timeout jobs 10000
END
fi
# The passwords are the secret's, which may be another one by now.
grep -v -e '^requirepass ' -e '^sentinel auth-pass ' -e '^sentinel sentinel-pass ' "$file" >"$file.new" || true
cat >>"$file.new" <<END
requirepass $password
sentinel sentinel-pass $password
sentinel auth-pass jobs $password
END
mv "$file.new" "$file"
exec redis-server "$file" --sentinel "$@"

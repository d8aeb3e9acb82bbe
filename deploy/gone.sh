#!/usr/bin/env bash
# Wait until all services, tasks and networks of a stack are gone: deploy/gone.sh STACK. `make undeploy` calls it.
#
# A deployment under the same name fails while an old network is being removed. Docker's own option for this,
# `docker stack rm --detach=false`, sometimes waited forever for a service with crashed tasks.
set -euo pipefail
stack=$1
seconds=${UNDEPLOY_SECONDS:-120}
label=com.docker.stack.namespace=$stack
left() {
  docker service ls --quiet --filter "label=$label"
  docker stack ps --quiet "$stack" 2>/dev/null || true
  docker network ls --quiet --filter "label=$label"
}
until [ -z "$(left)" ]; do
  if [ "$SECONDS" -ge "$seconds" ]; then
    echo "Parts of the stack $stack still exist after $seconds s (UNDEPLOY_SECONDS); see: docker stack ps $stack" >&2
    exit 1
  fi
  sleep 1
done

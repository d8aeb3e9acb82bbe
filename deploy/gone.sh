#!/usr/bin/env bash
# Waits until nothing of a stack is left: deploy/gone.sh STACK. `make undeploy` calls it.
#
# A stack of the same name that finds a network half gone can't be deployed. docker's own way to wait, stack rm
# --detach=false, was seen to wait for ever for a service whose tasks had crashed.
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
    echo "Something of $stack is left after $seconds s (UNDEPLOY_SECONDS): docker stack ps $stack" >&2
    exit 1
  fi
  sleep 1
done

#!/usr/bin/env bash
# Remove a stack, and wait until all its services, tasks and networks are gone: deploy/undeploy.sh STACK. `make undeploy`
# calls it.
#
# A deployment under the same name fails while an old network is being removed. Docker's own option for this,
# `docker stack rm --detach=false`, sometimes waited forever for a service with crashed tasks.
set -euo pipefail
stack=$1
seconds=${UNDEPLOY_SECONDS:-120}
case $seconds in
  *[!0-9]* | ??????*)
    echo "UNDEPLOY_SECONDS=$seconds: not a whole number of seconds from 0 to 99999." >&2
    exit 2 ;;
esac
label=com.docker.stack.namespace=$stack
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# macOS has no timeout.
limited() {
  if command -v timeout >/dev/null; then timeout 60 docker "$@"; else docker "$@"; fi
}

# list KIND COMMAND...: print what a docker command lists, with its kind.
list() {
  local kind=$1 names status=0
  shift
  names=$(limited "$@" --format '{{.Name}}' 2>"$errors") || status=$?
  if [ "$status" -eq 124 ]; then
    echo "docker $1 $2: no answer within 60 s." >&2
    exit 1
  fi
  # `docker stack ps` fails if the stack has no task.
  if [ "$status" -ne 0 ] && ! grep -qi "nothing found" "$errors"; then
    cat "$errors" >&2
    exit 1
  fi
  [ -z "$names" ] || while read -r name; do echo "  $kind $name"; done <<<"$names"
}

left() {
  list service service ls --filter "label=$label"
  list task stack ps "$stack"
  list network network ls --filter "label=$label"
}

# `docker stack rm` fails if a task that still ends uses a network, and it removes all other parts.
if ! limited stack rm "$stack" 2>"$errors"; then
  cat "$errors" >&2
  grep -q "in use by task" "$errors" || exit 1
  echo "Waiting until this task has ended …" >&2
fi
while true; do
  rest=$(left)
  [ -n "$rest" ] || exit 0
  if [ "$SECONDS" -ge "$seconds" ]; then
    printf '%s\n' "After $seconds s (UNDEPLOY_SECONDS), these parts of the stack $stack still exist:" "$rest" >&2
    exit 1
  fi
  # Docker does not try again to remove such a network.
  if ! grep -qE "^  (service|task) " <<<"$rest"; then limited stack rm "$stack" >/dev/null 2>&1 || true; fi
  sleep 1
done

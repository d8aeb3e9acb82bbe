#!/usr/bin/env bash
# Deploys the stack to the Swarm that docker reaches, waits until it has converged, and says what it sees: make deploy
# Takes IMAGE, STACK, OVERLAYS, DEPLOY_FLAGS, DEPLOY_SECONDS from make. Exit code 1: Swarm took the update back, or it
# didn't converge within DEPLOY_SECONDS.
set -euo pipefail
cd "$(dirname "$0")/.."
service=${STACK}_mcp

# When the last update began, and what has become of it; nothing if there was none.
update() {
  docker service inspect --format '{{with .UpdateStatus}}{{.StartedAt}} {{.State}}{{end}}' "$service" 2>/dev/null || true
}

if ! docker secret inspect request_state_keys >/dev/null 2>&1; then
  openssl rand -hex 32 | docker secret create request_state_keys - >/dev/null
fi
# A config can't be changed, so each content has a name of its own.
HAPROXY_CFG=$(cksum deploy/haproxy.cfg | cut -d' ' -f1)
export IMAGE HAPROXY_CFG

before=$(update)
echo "Deploying $IMAGE as '$STACK' …"
files=(-c stack.yml)
for overlay in ${OVERLAYS:-}; do files+=(-c "$overlay"); done
out=/dev/null
if [ -t 1 ]; then out=/dev/stdout; fi
# shellcheck disable=SC2086  # flags are words
timeout --foreground "$DEPLOY_SECONDS" \
  docker stack deploy --detach=false ${DEPLOY_FLAGS:-} "${files[@]}" "$STACK" >"$out" || code=$?
if [ "${code:-0}" = 124 ]; then
  echo "Not converged after $DEPLOY_SECONDS s (DEPLOY_SECONDS); Swarm goes on trying. What its tasks say:" >&2
  docker stack ps --no-trunc --format 'table {{.Name}}\t{{.Node}}\t{{.CurrentState}}\t{{.Error}}' "$STACK" >&2
  exit 1
elif [ "${code:-0}" != 0 ]; then
  exit "$code"
fi

docker stack ps --filter desired-state=running --format 'table {{.Name}}\t{{.Image}}\t{{.Node}}\t{{.CurrentState}}' "$STACK"
after=$(update)
if [ "$after" != "$before" ]; then
  case $after in
  *rollback* | *paused*)
    echo "The update failed, and Swarm went back to what ran before (${after##* })." >&2
    echo "Why: docker service ps --no-trunc $service; docker service logs $service" >&2
    exit 1
    ;;
  esac
fi

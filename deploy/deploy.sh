#!/usr/bin/env bash
# Deploys the stack to the Swarm that docker reaches, waits until it has converged, and says what it sees: make deploy
# Takes IMAGE, STACK, OVERLAYS, DEPLOY_FLAGS, DEPLOY_SECONDS from make. Exit code 1: Swarm took the update back, or it
# didn't converge within DEPLOY_SECONDS.
set -euo pipefail
cd "$(dirname "$0")/.."
services=("${STACK}_mcp")

# When a service's last update began, and what has become of it; nothing if there was none.
update() {
  docker service inspect --format '{{with .UpdateStatus}}{{.StartedAt}} {{.State}}{{end}}' "$1" 2>/dev/null || true
}

# Whether there is no secret of that name yet.
lacks() {
  ! docker secret inspect "$1" >/dev/null 2>&1
}

if lacks request_state_keys; then
  openssl rand -hex 32 | docker secret create request_state_keys - >/dev/null
fi
files=(-c stack.yml)
for overlay in ${OVERLAYS:-}; do
  files+=(-c "$overlay")
  if [ "$overlay" -ef deploy/jobs.yml ]; then
    services+=("${STACK}_worker" "${STACK}_redis")
    if lacks jobs_url; then
      echo "redis://:$(openssl rand -hex 24)@redis:6379/0" | docker secret create jobs_url - >/dev/null
    fi
  fi
  if [ "$overlay" -ef deploy/observability.yml ]; then
    services+=("${STACK}_prometheus" "${STACK}_grafana")
    if lacks metrics_token; then
      openssl rand -hex 32 | docker secret create metrics_token - >/dev/null
    fi
    if lacks grafana_password; then
      password=$(openssl rand -hex 12)
      echo "$password" | docker secret create grafana_password - >/dev/null
      echo "Grafana's user is admin, its password $password (shown this once)."
    fi
  fi
done
# A config can't be changed, so each content has a name of its own.
HAPROXY_CFG=$(cksum deploy/haproxy.cfg | cut -d' ' -f1)
OBSERVABILITY_CFG=$(find deploy/observability -type f | LC_ALL=C sort | xargs cat | cksum | cut -d' ' -f1)
export IMAGE HAPROXY_CFG OBSERVABILITY_CFG

before=()
for service in "${services[@]}"; do before+=("$(update "$service")"); done
echo "Deploying $IMAGE as '$STACK' …"
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
failed=0
for n in "${!services[@]}"; do
  service=${services[n]}
  after=$(update "$service")
  if [ "$after" != "${before[n]}" ]; then
    case $after in
    *rollback* | *paused*)
      echo "The update failed, and Swarm went back to what ran before (${after##* })." >&2
      echo "Why: docker service ps --no-trunc $service; docker service logs $service" >&2
      failed=1
      ;;
    esac
  fi
done
exit "$failed"

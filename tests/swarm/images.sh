#!/usr/bin/env bash
# Builds the images that tests/swarm deploys from IMAGE (default mcp-swarm:latest), and prints their names.
set -euo pipefail
cd "$(dirname "$0")/../packs"
for target in good next sick crashing; do
  docker build --quiet --build-arg "IMAGE=${IMAGE:-mcp-swarm:latest}" --target "$target" \
    -t "mcp-swarm-test:$target" -f ../swarm/Dockerfile . >&2
  echo "mcp-swarm-test:$target"
done

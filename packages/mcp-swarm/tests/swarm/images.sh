#!/usr/bin/env bash
# Builds the images that tests/swarm deploys from IMAGE (default mcp-swarm:latest), and prints their names. Each image
# has its own tag, and the tag of its content, which make deploy uses.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
for target in good next sick crashing services; do
  docker build --quiet --build-arg "IMAGE=${IMAGE:-mcp-swarm:latest}" --target "$target" \
    -t "mcp-swarm-test:$target" -f packages/mcp-swarm/tests/swarm/Dockerfile packages/mcp-swarm/tests >&2
  echo "mcp-swarm-test:$target"
  python3 -m deploy.image "mcp-swarm-test:$target"
done

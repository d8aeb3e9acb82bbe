#!/usr/bin/env bash
# Builds from IMAGE (default mcp-swarm:latest) the images that tests/swarm deploys, and prints their names. Each image
# has two tags: the name of its target, and a tag made from its content. make deploy uses the second tag.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
for target in good next sick crashing services; do
  docker build --quiet --build-arg "IMAGE=${IMAGE:-mcp-swarm:latest}" --target "$target" \
    -t "mcp-swarm-test:$target" -f packages/mcp-swarm/tests/swarm/Dockerfile packages/mcp-swarm/tests >&2
  echo "mcp-swarm-test:$target"
  python3 -m deploy.image "mcp-swarm-test:$target"
done

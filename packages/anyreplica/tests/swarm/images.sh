#!/usr/bin/env bash
# Builds from IMAGE (default mcp-swarm:latest) the images that tests/swarm deploys, and prints their names. Each image
# has two tags: the name of its target, and a tag made from its content. make deploy uses the second tag.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
for target in good next sick crashing services; do
  docker build --quiet --build-arg "IMAGE=${IMAGE:-mcp-swarm:latest}" --target "$target" \
    -t "anyreplica-test:$target" -f packages/anyreplica/tests/swarm/Dockerfile packages/anyreplica/tests >&2
  echo "anyreplica-test:$target"
  PYTHONPATH=packages/anyreplica/src python3 -m anyreplica.deploy.image "anyreplica-test:$target"
done

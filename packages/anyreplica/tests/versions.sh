#!/usr/bin/env bash
# Run a part of the tests with the oldest and with the newest versions of all dependencies that pyproject.toml allows.
# versions.sh [oldest] [newest]: `make test-versions` calls it. It needs the index of packages.
# Environment variables: UV and PYTHON (the commands), PROCESSES (of tests that run at the same time), ARGS (for pytest),
# VERSIONS_SHARE=2: run a half of the tests with the oldest versions, and the other half with the newest ones. The commit
# decides which half. Tests of the names that these packages call private always run.
set -euo pipefail
cd "$(dirname "$0")/../../.."
package=packages/anyreplica
uv=${UV:-uv}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
declare -A resolution=([oldest]=lowest-direct [newest]=highest)

names=(test_private_names.py http/test_uvicorn_names.py auth/login/test_names.py process/test_versions.py)
# What uses FastMCP, the SDK, uvicorn, Redis, Docket and the signatures, mostly without servers.
tests=(mcp fastmcp_server components process/test_embedded_redis.py jobs signing/test_verify.py)
declare -A share=()
if [ -n "${VERSIONS_SHARE:-}" ]; then
  share=([oldest]="--share $VERSIONS_SHARE" [newest]="--without-share $VERSIONS_SHARE")
fi

# pydantic before 2.14 cannot write a queue as JSON.
queue=$package/tests/mcp/paths/test_tools.py::test_each_tool_gets_one_answer
skipped=(--deselect "$queue[queue-2025-11-25]" --deselect "$queue[queue-2026-07-28]")

if [ $# = 0 ]; then set -- oldest newest; fi
for which in "$@"; do
  echo "=== the $which versions (${SECONDS}s)"
  environment=$work/$which versions=$work/$which.txt
  "$uv" venv --quiet --python "${PYTHON:-python3}" "$environment"
  python=$environment/bin/python
  "$uv" pip compile --quiet --no-header --no-annotate --python "$python" --resolution "${resolution[$which]}" \
    --all-extras "$package/pyproject.toml" -o "$versions"
  grep -E '^(fastmcp|mcp|uvicorn|redis|pydocket|fakeredis)(\[.*\])?==' "$versions"
  # The tools of the tests are the newest ones that fit.
  "$uv" pip install --quiet --python "$python" -r "$versions" \
    pytest pytest-timeout pytest-xdist hypothesis httpx "hatchling>=1.27" editables
  # fastmcp-tasks demands FastMCP of exactly its own version, and the index has not all of them.
  "$uv" pip install --quiet --python "$python" --no-deps --resolution "${resolution[$which]}" "fastmcp-tasks>=4.1,<5"
  "$uv" pip install --quiet --python "$python" --no-deps --no-build-isolation -e "$package"
  # A mixture of old and new versions may be deprecated, which concerns nobody.
  pytest=("$python" -m pytest -p no:cacheprovider --quiet -W ignore::DeprecationWarning
    -m "(not servers and not system and not slow) or smoke")
  "${pytest[@]}" "${names[@]/#/$package/tests/}"
  # shellcheck disable=SC2086  # ARGS and the share have several words
  "${pytest[@]}" --dist loadfile -n "${PROCESSES:-2}" "${skipped[@]}" ${share[$which]:-} ${ARGS:-} \
    "${tests[@]/#/$package/tests/}"
done

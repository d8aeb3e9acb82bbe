#!/usr/bin/env bash
# copier calls this script in the folder of a new or an updated project: into-project.sh TEMPLATE PACKAGE PYTHON
# TEMPLATE is copier's clone of the template, PACKAGE the answer to the question `package`, PYTHON copier's Python.
#
# It refuses a template with changes that are not committed, because `copier update` could not find that version again.
# If PACKAGE is `wheel`, it writes the wheel of anyreplica into packages/.
set -euo pipefail
template=$1 package=$2 python=$3
if [ -z "$(git -C "$template" for-each-ref --contains HEAD refs/remotes refs/tags)" ]; then
  echo "The template has changes that are not committed, or its commit is on no branch and no tag. So the project could" \
    "not be updated later. Commit the changes to a branch, or run copier with a clean clone." >&2
  exit 1
fi
if [ "$package" != wheel ]; then exit; fi
mkdir -p packages
rm -f packages/anyreplica-*.whl
if command -v uv >/dev/null; then
  uv build --quiet --wheel --out-dir packages "$template/packages/anyreplica"
  rm -f packages/.gitignore
else
  "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir packages "$template/packages/anyreplica"
fi

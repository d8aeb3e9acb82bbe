#!/bin/sh
# Write the Helm chart as plain manifests: NAME=my-server IMAGE=my-server:1 deploy/manifests.sh FILE [OPTION OF HELM]…
# NAME is the name of all objects. The manifests refer to a Secret that you create. A file that people may commit must
# not contain a secret.
set -eu
cd "$(dirname "$0")/.."
file=$1
shift
if ! command -v helm >/dev/null; then
  echo "make k8s needs the program helm: https://helm.sh/docs/intro/install/" >&2
  exit 1
fi
# The tag is what follows the last colon, unless a slash comes after it: registry.example.com:5000/my-server
case ${IMAGE##*/} in
*:*) repository=${IMAGE%:*} tag=${IMAGE##*:} ;;
*) repository=$IMAGE tag=latest ;;
esac
mkdir -p "$(dirname "$file")"
trap 'rm -f "$file.new"' EXIT
{
  echo "# $NAME as plain manifests for Kubernetes, made by \`make k8s\`. Create the Secret once, before the first apply:"
  echo "#   kubectl create secret generic $NAME-secrets --from-literal=request_state_keys=\"\$(openssl rand -hex 32)\""
  echo "#   kubectl apply -f $file"
  echo "# For other settings, write the chart's values into a file: make k8s HELM_FLAGS=\"--values my.yaml\""
  helm template "$NAME" deploy/helm/anyreplica --set "names.fullName=$NAME,secrets.existingSecret=$NAME-secrets" \
    --set-string "image.repository=$repository,image.tag=$tag" "$@"
} >"$file.new"
if grep -q '^kind: Secret$' "$file.new"; then
  echo "make k8s writes no secrets into a file, but these values make the chart create one. Use helm install instead." >&2
  exit 1
fi
mv "$file.new" "$file"
echo "Wrote $file. Its first lines say how to create the Secret and how to apply the file."

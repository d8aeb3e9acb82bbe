#!/usr/bin/env bash
# Sign one request (HTTP Message Signatures, RFC 9421, Ed25519) and send it. The script needs only openssl and curl.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: deploy/signed-call.sh URL KEY_ID KEY.pem [MESSAGE]

Sign a JSON-RPC message, POST it to an MCP server and print the reply. The
script needs openssl 3 and curl.

arguments:
  URL      MCP endpoint, such as http://localhost:8150/mcp
  KEY_ID   id of the public key on the server
  KEY.pem  file with the private key (Ed25519, PEM, no password)
  MESSAGE  JSON-RPC message, sent unchanged (default: read it from stdin)

example:
  deploy/signed-call.sh http://localhost:8150/mcp robot robot.pem \
    '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}'

Create a key pair, and print the public key for API_KEYS_FILE:
  openssl genpkey -algorithm ed25519 -out KEY.pem
  echo "ed25519:$(openssl pkey -in KEY.pem -pubout -outform DER | tail -c 32 | openssl base64 -A)"

exit codes:
  0      the server accepted the request
  2      wrong arguments
  22     the server refused the request; its reply names the reason
  other  exit code of curl; stderr names the reason
TEXT
}

refuse() {
  echo "signed-call.sh: $1; see --help" >&2
  exit 2
}

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  usage
  exit
fi
if [ $# -lt 3 ] || [ $# -gt 4 ]; then refuse "expected 3 or 4 arguments, got $#"; fi
url=${1%%#*} key_id=$2 key=$3
for command in openssl curl; do
  command -v "$command" >/dev/null || refuse "the command $command is not installed"
done
LC_ALL=C # The character ranges below are ranges of ASCII.
[[ $url =~ ^https?://[^/?]+(/[^?]*)?(\?.*)?$ ]] || refuse "'$url' is not a URL like http://localhost:8150/mcp"
path=${BASH_REMATCH[1]:-/} query=${BASH_REMATCH[2]}
if [ "$query" = '?' ]; then query=; fi
case $url in *[!!-~]*) refuse "the URL contains characters that must be percent-encoded" ;; esac
case $key_id in
'' | *[!\ -~]* | *[\"\\]*) refuse "a key id needs printable ASCII characters, without quotation mark and backslash" ;;
esac
[ -r "$key" ] || refuse "can't read the file '$key'"
openssl pkey -in "$key" -passin pass: -noout -text 2>/dev/null | grep -q '^ED25519 Private-Key' ||
  refuse "'$key' is not an Ed25519 private key in PEM without a password"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ $# = 4 ]; then
  printf %s "$4" >"$folder/body"
else
  cat >"$folder/body"
fi

# The signed text has one line for each component. Its last line has the list of components and the signature's
# parameters (RFC 9421, section 2.5).
digest="sha-256=:$(openssl dgst -sha256 -binary "$folder/body" | openssl base64 -A):"
parts='"@method" "@path"'
lines="\"@method\": POST
\"@path\": $path
"
if [ -n "$query" ]; then
  parts="$parts \"@query\""
  lines="$lines\"@query\": $query
"
fi
parts="$parts \"content-digest\""
lines="$lines\"content-digest\": $digest
"
parameters="($parts);created=$(date +%s);keyid=\"$key_id\";nonce=\"$(openssl rand -hex 16)\""
printf %s "$lines\"@signature-params\": $parameters" >"$folder/text"
openssl pkeyutl -sign -rawin -inkey "$key" -in "$folder/text" -out "$folder/signature"

curl --silent --show-error --fail-with-body --globoff --path-as-is "$url" \
  --header 'Content-Type: application/json' \
  --header 'Accept: application/json' \
  --header "Content-Digest: $digest" \
  --header "Signature-Input: sig=$parameters" \
  --header "Signature: sig=:$(openssl base64 -A -in "$folder/signature"):" \
  --data-binary "@$folder/body"

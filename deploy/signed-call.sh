#!/usr/bin/env bash
# Signs one request (HTTP Message Signatures, RFC 9421, with Ed25519) and sends it, with nothing but openssl and curl.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: deploy/signed-call.sh URL KEY_ID KEY.pem [MESSAGE]

Signs a JSON-RPC message, POSTs it to an MCP server and prints the answer.

  URL       the endpoint, like http://localhost:8150/mcp
  KEY_ID    the id under which the server has the public key
  KEY.pem   the private key (Ed25519)
  MESSAGE   the message, byte by byte as it is to be sent; without it, what comes on standard input. Like
            {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}

A new pair of keys, and the public one as the server wants it:

  openssl genpkey -algorithm ed25519 -out KEY.pem
  echo "ed25519:$(openssl pkey -in KEY.pem -pubout -outform DER | tail -c 32 | openssl base64 -A)"

Needs openssl 3 and curl. Exit codes: 0 the server took the request; 2 wrong arguments; 22 it refused (its answer says
why); any other: curl's, which tells on stderr what was in the way.
TEXT
}

refuse() {
  echo "signed-call.sh: $1; --help says how it is used" >&2
  exit 2
}

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  usage
  exit
fi
if [ $# -lt 3 ] || [ $# -gt 4 ]; then refuse "3 or 4 arguments are wanted, not $#"; fi
url=${1%%#*} key_id=$2 key=$3
for command in openssl curl; do
  command -v "$command" >/dev/null || refuse "there is no $command"
done
LC_ALL=C # ranges of characters below are those of ASCII
[[ $url =~ ^https?://[^/?]+(/[^?]*)?(\?.*)?$ ]] || refuse "'$url' is no URL like http://localhost:8150/mcp"
path=${BASH_REMATCH[1]:-/} query=${BASH_REMATCH[2]}
if [ "$query" = '?' ]; then query=; fi
case $url in *[!!-~]*) refuse "the URL has characters that must be percent-encoded" ;; esac
case $key_id in
'' | *[!\ -~]* | *[\"\\]*) refuse "a key id has printable ASCII characters, without quotation mark and backslash" ;;
esac
[ -r "$key" ] || refuse "can't read the file '$key'"
openssl pkey -in "$key" -passin pass: -noout -text 2>/dev/null | grep -q '^ED25519 Private-Key' ||
  refuse "'$key' holds no Ed25519 private key in PEM without a password"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ $# = 4 ]; then
  printf %s "$4" >"$folder/body"
else
  cat >"$folder/body"
fi

# What is signed: a line for each part, and last the list of the parts with the signature's parameters.
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

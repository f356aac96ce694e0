#!/usr/bin/env bash
# curl through the gateway: HTTP/1.1, HTTP/2 with prior knowledge, HTTP/1.0,
# Expect: 100-continue, chunked bodies, errors, and the control port. Starts
# what it needs when nothing is running; see with-stack for the environment.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${FOREBAY_TEST_URL:-}" ] || exec sdk-tests/with-stack "$0" "$@"

URL=${FOREBAY_TEST_URL%/}
ADMIN=${FOREBAY_TEST_ADMIN:-}
MODEL=$FOREBAY_TEST_MODEL
PASSED=0 FAILED=0
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT

CHAT='{"model":"'$MODEL'","max_tokens":8,"messages":[{"role":"user","content":"Name a river."}]}'
STREAM='{"model":"'$MODEL'","max_tokens":8,"stream":true,"messages":[{"role":"user","content":"Name a river."}]}'

# get NAME WANTED CURL-ARGUMENT...: one request; WANTED is "status version",
# as curl's %{http_code} and %{http_version}. The body is left in $DIR/body,
# what curl saw in $DIR/trace.
get() {
  local name=$1 wanted=$2 got
  shift 2
  rm -f "$DIR/body" "$DIR/head"
  got=$(curl -sv --max-time 60 -o "$DIR/body" -D "$DIR/head" -w '%{http_code} %{http_version}' "$@" 2>"$DIR/trace") || got="$got (curl failed: $?)"
  check "$name" "[ '$got' = '$wanted' ]"
}

# check NAME CONDITION: CONDITION is a shell command.
check() {
  if eval "$2"; then
    PASSED=$((PASSED + 1))
    echo "ok       $1"
  else
    FAILED=$((FAILED + 1))
    echo "FAILED   $1: $2"
    sed 's/^/           /' "$DIR/trace" "$DIR/body" 2>/dev/null | tail -30
  fi
}

post() { get "$1" "$2" -H 'Content-Type: application/json' "${@:4}" --data-binary "$3" "$URL/v1/chat/completions"; }
streamed() { check "$1 ends with [DONE]" "tail -c 20 '$DIR/body' 2>/dev/null | grep -qF 'data: [DONE]'"; }
answered() { check "$1 has an answer" "grep -qs '\"finish_reason\"' '$DIR/body'"; }
error_names() { check "$1 names $2" "grep -q '$2' '$DIR/body' && grep -q '\"error\"' '$DIR/body'"; }

post "chat" "200 1.1" "$CHAT"
answered "chat"
check "the answer carries x-request-id" "grep -qi '^x-request-id: .' '$DIR/head'"
post "stream" "200 1.1" "$STREAM" -N
streamed "stream"
check "the stream's type is text/event-stream" "grep -qi '^content-type: text/event-stream' '$DIR/head'"

post "HTTP/2 chat" "200 2" "$CHAT" --http2-prior-knowledge
answered "HTTP/2 chat"
post "HTTP/2 stream" "200 2" "$STREAM" --http2-prior-knowledge -N
streamed "HTTP/2 stream"

post "Expect: 100-continue" "200 1.1" "$CHAT" -H 'Expect: 100-continue' --expect100-timeout 30
check "100 Continue came" "grep -q '^< HTTP/1.1 100' '$DIR/trace'"
post "chunked request body" "200 1.1" "$CHAT" -H 'Transfer-Encoding: chunked'
answered "chunked request body"

# HTTP/1.0, whose version curl writes as 1: the answer may not be chunked.
get "HTTP/1.0 chat" "200 1" --http1.0 --data-binary "$CHAT" -H 'Content-Type: application/json' "$URL/v1/chat/completions"
check "HTTP/1.0 answer is not chunked" "! grep -qi '^transfer-encoding' '$DIR/head'"
answered "HTTP/1.0 chat"
get "HTTP/1.0 stream" "200 1" --http1.0 -N --data-binary "$STREAM" -H 'Content-Type: application/json' "$URL/v1/chat/completions"
check "HTTP/1.0 stream is not chunked" "! grep -qi '^transfer-encoding' '$DIR/head'"
streamed "HTTP/1.0 stream"

connects=$(curl -s --max-time 60 -o /dev/null -o /dev/null -w '%{num_connects} ' "$URL/v1/models" "$URL/v1/models")
check "keep-alive: the second request opens no connection" "[ '$connects' = '1 0 ' ]"

get "models" "200 1.1" "$URL/v1/models"
check "models lists $MODEL" "grep -qF '\"$MODEL\"' '$DIR/body'"
get "one model" "200 1.1" "$URL/v1/models/$MODEL"
get "unknown path" "404 1.1" "$URL/v1/no-such-path"
get "wrong method" "405 1.1" "$URL/v1/chat/completions"
check "405 says what is allowed" "grep -qi '^allow: .*POST' '$DIR/head'"
for path in /metrics /health /reset_prefix_cache /pause /load /v1/load_lora_adapter; do
  get "$path of an engine is out of reach" "404 1.1" "$URL$path"
done

post "unknown model" "404 1.1" "${CHAT/$MODEL/${MODEL}x}"
error_names "unknown model" "$MODEL"
post "not JSON" "400 1.1" '{"model":'
post "no messages" "400 1.1" '{"model":"'"$MODEL"'"}'
error_names "no messages" messages
post "wrong type" "400 1.1" '{"model":"'"$MODEL"'","stream":"yes","messages":[]}'
error_names "wrong type" stream
post "a key twice, once escaped" "400 1.1" '{"model":"'"$MODEL"'","mod\u0065l":"other","messages":[]}'
error_names "a key twice, once escaped" model

if [ -n "$ADMIN" ]; then
  get "healthz" "200 1.1" "$ADMIN/healthz"
  get "readyz" "200 1.1" "$ADMIN/readyz"
  get "status" "200 1.1" "$ADMIN/api/v1/status"
  get "endpoints" "200 1.1" "$ADMIN/api/v1/endpoints"
  get "metrics" "200 1.1" "$ADMIN/metrics"
  check "metrics count requests" "grep -q '^forebay_requests_total{' '$DIR/body'"
  if command -v promtool >/dev/null; then
    check "promtool accepts the metrics" "promtool check metrics <'$DIR/body' >'$DIR/trace' 2>&1"
  fi
fi

echo "$PASSED passed, $FAILED failed"
[ "$FAILED" = 0 ]

#!/usr/bin/env bash
# The OpenAI Node SDK through the gateway. With nothing running, it starts what
# it needs: sdk-tests/node/run.sh; see ../with-stack for the environment.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ -n "${FOREBAY_TEST_URL:-}" ] || exec sdk-tests/with-stack "$0" "$@"
export FOREBAY_NODE_MODULES=$PWD/target/sdk-node/node_modules
[ -d "$FOREBAY_NODE_MODULES/openai" ] || {
  echo "the OpenAI Node SDK is not in target/sdk-node: scripts/test installs it" >&2
  exit 1
}
exec node --test sdk-tests/node/sdk.test.mjs

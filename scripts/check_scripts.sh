#!/usr/bin/env bash
# Runs shellcheck over the scripts. Exit status 77: it is not installed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if ! command -v shellcheck > /dev/null; then
  echo "SKIP: shellcheck is not installed"
  exit 77
fi
cd "$ROOT"
shellcheck --external-sources scripts/*.sh .ci/run

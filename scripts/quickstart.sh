#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds the three programs, runs
# the main job. Arguments go to `psctl train`, e.g. scripts/quickstart.sh --set train.epochs=1
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$ROOT/scripts/setup.sh"
say "quickstart: building release in build/release"
configure release -DPS_TESTS=OFF
build release psctl ps_agent ps_server ps_worker >&2
cd "$ROOT"
exec build/release/bin/psctl train configs/fashion_mnist_cnn.json "$@"

#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds the programs, runs the
# main job. CUDA is compiled where there is a device, or with --cuda, which comes first. Other
# arguments go to `psctl train`, e.g. scripts/quickstart.sh --set train.epochs=1
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cuda=OFF
if [[ "${1:-}" == --cuda ]]; then
  shift
  cuda=ON
elif has_cuda_device; then
  cuda=AUTO
fi

"$ROOT/scripts/setup.sh"
say "quickstart: building release in build/release, CUDA $cuda"
mapfile -t joined < <(joined_if_fresh release)
configure release -DPS_TESTS=OFF -DPS_CUDA="$cuda" "${joined[@]}"
build release psctl ps_agent ps_coordinator ps_server ps_worker >&2
cd "$ROOT"
exec build/release/bin/psctl train configs/fashion_mnist_cnn.json "$@"

#!/usr/bin/env bash
# Samples per second of one worker through the servers beside PyTorch, eager and compiled, with the
# same model, minibatch and optimizer: on one thread of the CPU (mlp, cnn, resnet20, gpt; some ten
# minutes) and, where PyTorch finds a CUDA device, on that (resnet20, resnet110, resnet50, a gpt of
# GPT-2's size; in f32 and bf16, some fifteen minutes). PyTorch is that of build/pytorch, else that
# of python3 if it has one, else the newest of the Python index is installed into build/pytorch
# (some 5 GB). --programs names a folder with psctl and the others, which are built otherwise;
# --rounds, --seconds, --json, --local-steps, --step and --precision as scripts/compare_pytorch.py
# tells.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  say "usage: scripts/compare_pytorch.sh [--device cpu|cuda] [--programs FOLDER] [--rounds N]" \
    "[--seconds S] [--json FILE] [--local-steps N[,N]] [--step PROGRAM]" \
    "[--precision f32|bf16] [MODEL ...]"
  exit 2
}

devices=()
programs=""
options=()
while [[ "${1:-}" == -* ]]; do
  [[ $# -ge 2 ]] || usage
  case "$1" in
    --device) devices=("$2") ;;
    --programs) programs="$2" ;;
    --rounds | --seconds | --json | --local-steps | --step | --precision)
      options+=("$1" "$2") ;;
    *) usage ;;
  esac
  shift 2
done

python="$(find_pytorch)" || {
  say "compare_pytorch: installing PyTorch into build/pytorch"
  python="$ROOT/build/pytorch/bin/python"
  if ! { python3 -m venv "$ROOT/build/pytorch" &&
    "$ROOT/build/pytorch/bin/pip" install --quiet torch >&2; }; then
    say "compare_pytorch: PyTorch could not be installed: it needs python3-venv, a network and 6 GB"
    exit 1
  fi
}
if [[ ${#devices[@]} == 0 ]]; then
  devices=(cpu)
  if "$python" -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then
    devices=(cpu cuda)
  fi
fi
dataset=/usr/share/datasets/fashion-mnist
if [[ " ${devices[*]} " == *" cpu "* && ! -d "$dataset" ]]; then
  say "compare_pytorch: $dataset is not there; scripts/setup.sh installs it"
  exit 1
fi
if [[ -z "$programs" ]]; then
  say "compare_pytorch: building release in build/release"
  configure release
  build release psctl ps_agent ps_coordinator ps_server ps_worker >&2
  programs="$ROOT/build/release/bin"
fi
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
for device in "${devices[@]}"; do
  "$python" "$ROOT/scripts/compare_pytorch.py" --device "$device" "${options[@]}" \
    "$programs/psctl" "$folder" "$@"
done

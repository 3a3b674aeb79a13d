#!/usr/bin/env bash
# Samples per second of one worker through the servers beside PyTorch, eager and compiled, with the
# same model, minibatch, optimizer and one thread. Installs the newest PyTorch of the Python index
# into build/pytorch when it is not there (some 5 GB). Models: mlp, cnn, resnet20, gpt; all of them
# take some ten minutes.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [[ "${1:-}" == -* ]]; then
  say "usage: scripts/compare_pytorch.sh [MODEL ...]"
  exit 2
fi
dataset=/usr/share/datasets/fashion-mnist
if [[ ! -d "$dataset" ]]; then
  say "compare_pytorch: $dataset is not there; scripts/setup.sh installs it"
  exit 1
fi
venv="$ROOT/build/pytorch"
if ! "$venv/bin/python" -c "import torch" 2> /dev/null; then
  say "compare_pytorch: installing PyTorch into build/pytorch"
  if ! { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet torch >&2; }; then
    say "compare_pytorch: PyTorch could not be installed: it needs python3-venv, a network and 6 GB"
    exit 1
  fi
fi
say "compare_pytorch: building release in build/release"
configure release
build release psctl ps_agent ps_server ps_worker >&2
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
"$venv/bin/python" "$ROOT/scripts/compare_pytorch.py" \
  "$ROOT/build/release/bin/psctl" "$folder" "$dataset" "$@"

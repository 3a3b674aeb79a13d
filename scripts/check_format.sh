#!/usr/bin/env bash
# Says which C++ and CUDA files clang-format 14 would change. Exit status 77: it is not installed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if ! command -v clang-format-14 > /dev/null; then
  echo "SKIP: clang-format-14 is not installed"
  exit 77
fi
cd "$ROOT"
find ps worker kernels checkpoint provisioner run psctl tests \
  \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 clang-format-14 --dry-run --Werror

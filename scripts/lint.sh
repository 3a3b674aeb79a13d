#!/usr/bin/env bash
# clang-tidy 19 with the repository's configuration, over the files given, or over those that differ
# from a commit: scripts/lint.sh [--since COMMIT | FILE...]. Uses build/dev's compile commands.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

command -v clang-tidy-19 > /dev/null ||
  die "clang-tidy-19 is not installed; apt-get install clang-tidy-19"
files=("$@")
if [[ $# == 0 ]]; then
  set -- --since HEAD
fi
if [[ "$1" == --since ]]; then
  [[ $# == 2 ]] || die "usage: scripts/lint.sh [--since COMMIT | FILE...]"
  mapfile -t files < <(git diff --name-only --diff-filter=d "$2" -- '*.cc')
fi
if [[ ${#files[@]} == 0 ]]; then
  say "lint: no .cc file to look at"
  exit 0
fi
[[ -f build/dev/compile_commands.json ]] || configure dev
# The compile commands name generated headers, which the build makes.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy-19 -p build/dev --quiet

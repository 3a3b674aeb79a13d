#!/usr/bin/env bash
# Fuzzes one parser for some seconds: scripts/fuzz.sh TARGET [SECONDS]. Starts from the corpus in
# tests/fuzz/corpus and from what earlier runs found, in build/fuzz/TARGET; an input that breaks a
# promise is left in build/fuzz as TARGET-crash-*. The suite runs it by a count, which repeats:
# scripts/fuzz.sh --program FILE --runs N TARGET.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

program=""
runs=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --program)
      program="$2"
      shift 2
      ;;
    --runs)
      runs="$2"
      shift 2
      ;;
    *) break ;;
  esac
done
[[ $# -ge 1 && $# -le 2 && -d "tests/fuzz/corpus/$1" ]] ||
  die "usage: scripts/fuzz.sh TARGET [SECONDS]; targets: $(cd tests/fuzz/corpus && echo *)"
target="$1"
corpus="tests/fuzz/corpus/$target"

if [[ -z "$program" ]]; then
  configure dev
  build dev fuzz_targets >&2
  program="build/dev/tests/fuzz_targets"
fi
mkdir -p build/fuzz
arguments=("-artifact_prefix=build/fuzz/$target-" -timeout=20 -rss_limit_mb=2048 -verbosity=0
  -error_exitcode=1) # its own, 77, is ctest's word for a test that skips
dictionary="tests/fuzz/dictionaries/$target.dict"
if [[ -f "$dictionary" ]]; then
  arguments+=("-dict=$dictionary")
fi
if [[ -n "$runs" ]]; then
  found="$(mktemp -d)"
  trap 'rm -rf "$found"' EXIT
  arguments+=("-runs=$runs" -seed=1)
else
  found="build/fuzz/$target"
  mkdir -p "$found"
  arguments+=("-max_total_time=${2:-60}" -print_final_stats=1)
fi
"$program" "$target" "${arguments[@]}" "$found" "$corpus"

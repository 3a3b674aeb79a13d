#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test: dev (address and undefined-behaviour
# sanitizers), tsan, and release (with CUDA where nvcc is). All tests of all builds are one ctest
# run, so its closing lines tell the whole result. CMakePresets.json says which build has which.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  say "usage: scripts/test.sh [--quick] [--preset NAME]... [-- CTEST_ARGUMENT...]"
  say "  --quick         the dev build only"
  say "  --preset NAME   this build only; may be repeated"
  exit 2
}

presets=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --quick)
      presets+=(dev)
      shift
      ;;
    --preset)
      [[ $# -ge 2 ]] || usage
      presets+=("$2")
      shift 2
      ;;
    --)
      shift
      break
      ;;
    *) usage ;;
  esac
done
if [[ ${#presets[@]} == 0 ]]; then
  presets=(dev tsan release)
fi

# Prints ctest's output as it comes, and before its closing lines where the time went, how many were
# skipped, and why. An entry of ctest is a suite, a test or a script; the seconds of a build's
# entries are added up: some ran beside others.
report() {
  awk -v log_file="$1" -v builds="$2" -v afterwards="$3" '
    /^[0-9]+% tests passed/ { verdict = $0; is_closing = 1; next }
    is_closing { closing = closing $0 "\n"; next }
    / Test +#[0-9]+: .* sec$/ {
      name = $0
      sub(/.* Test +#[0-9]+: /, "", name)
      sub(/ .*/, "", name)
      preset = name
      sub(/[.].*/, "", preset)
      entries[preset]++
      seconds[preset] += $(NF - 1)
      if ($(NF - 1) > longest[preset]) {
        longest[preset] = $(NF - 1)
        longest_name[preset] = substr(name, length(preset) + 2)
      }
    }
    { print; fflush() }
    END {
      while ((getline line < log_file) > 0) {
        if (line ~ /^[0-9]+\/[0-9]+ Testing: /) {
          preset = line
          sub(/^[0-9\/]+ Testing: /, "", preset)
          sub(/[.].*/, "", preset)
        } else if (line ~ /^\[==========\] [0-9]+ tests? from .* ran[.]/) {
          split(line, word, " ")
          tests[preset] += word[2]
        }
        is_reason = sub(/^SKIP: /, "", line) || previous ~ /: Skipped$/
        if (is_reason) {
          skipped++
          reasons[line]++
        }
        previous = line
      }
      printf "\n%-8s %9s %8s %6s %10s %10s\n", \
        "", "build s", "entries", "tests", "tests s", "longest s"
      count = split(builds, build, " ")
      for (i = 1; i <= count; ++i) {
        split(build[i], part, "=")
        printf "%-8s %9d %8d %6d %10.0f %10.1f  %s\n", part[1], part[2], entries[part[1]], \
          tests[part[1]], seconds[part[1]], longest[part[1]], longest_name[part[1]]
      }
      printf "\nskipped: %d tests\n", skipped
      for (reason in reasons) { printf "  %d x %s\n", reasons[reason], reason }
      fflush()
      if (afterwards != "") { system(afterwards) }
      printf "%s\n%s\n", closing, verdict
    }'
}

# Random scenarios of the simulation that no earlier commit has run.
SPOTPS_FRESH_SEEDS="$(git -C "$ROOT" rev-parse HEAD 2> /dev/null || true)"
export SPOTPS_FRESH_SEEDS
# On a machine that never compiled this, ccache would run the preprocessor for nothing.
export CCACHE_DEPEND=1

"$ROOT/scripts/setup.sh" --tests
all="$ROOT/build/all"
build_seconds=""
mkdir -p "$all"
: > "$all/CTestTestfile.cmake"
# CUDA's compiler takes its time for each architecture; the lowest and the newest show most.
cuda=(-DPS_CUDA_ARCHITECTURES="75;100")
if ! has_cuda_device; then
  # Nothing of it runs here: a third of the time.
  cuda+=("-DCMAKE_CUDA_FLAGS=-Xcicc -O1 -Xptxas -O1")
fi
for preset in "${presets[@]}"; do
  say "test: building $preset in build/$preset"
  began="$SECONDS"
  mapfile -t joined < <(joined_if_fresh "$preset")
  configure "$preset" -DPS_TESTS=ON "${cuda[@]}" "${joined[@]}"
  build "$preset" >&2
  build_seconds+="$preset=$((SECONDS - began)) "
  printf 'subdirs("%s")\n' "$ROOT/build/$preset" >> "$all/CTestTestfile.cmake"
done

# Many tests wait for timers and processes most of their time: one more than there are cores keeps
# these busy. Those that measure run alone.
parallel="$(($(nproc) + 1))"
log="$all/Testing/Temporary/LastTest.log"
# ctest begins with the longest tests, so that none is alone at the end: where it has not run them
# yet, by what they took elsewhere.
costs="$all/Testing/Temporary/CTestCostData.txt"
if [[ ! -e "$costs" ]]; then
  mkdir -p "${costs%/*}"
  awk '{ print $1, 1, $2 } END { print "---" }' "$ROOT/tests/time_budget.tsv" > "$costs"
fi
afterwards=""
if [[ ${#presets[@]} == 3 && $# == 0 ]]; then
  afterwards="'$ROOT/scripts/time_budget.sh' '$log'"
fi
ctest --test-dir "$all" --parallel "$parallel" --output-on-failure --no-tests=error "$@" 2>&1 |
  report "$log" "$build_seconds" "$afterwards"

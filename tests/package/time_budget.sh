#!/usr/bin/env bash
# What scripts/time_budget.sh says of a machine that is slower, and of one test that is.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
export SPOTPS_TIME_BUDGET="$folder/budget.tsv"

# log NAME SECONDS ...: as ctest writes it
log() {
  : > "$folder/log"
  while [[ $# -gt 0 ]]; do
    printf '1/9 Testing: %s\nTest time =  %s sec\n' "$1" "$2" >> "$folder/log"
    shift 2
  done
}

# expect LINE: in what is said
expect() {
  "$root/scripts/time_budget.sh" "$folder/log" > "$folder/said"
  grep -Fxq -- "$1" "$folder/said" || {
    printf 'time_budget.sh: no line "%s" in:\n' "$1" >&2
    cat "$folder/said" >&2
    exit 1
  }
}

log dev.A 4.20 dev.B 10.00 dev.C 6.00 dev.Short 0.50
"$root/scripts/time_budget.sh" "$folder/log" --write 2> /dev/null
[[ "$(cut -f1 "$SPOTPS_TIME_BUDGET" | xargs)" == "dev.A dev.B dev.C" ]]
none="no test grew to more than twice its share of the time"
log dev.A 12.60 dev.B 30.00 dev.C 18.00 dev.Short 1.50
expect "$none"
log dev.A 4.20 dev.B 30.00 dev.C 6.00
expect "    10.0     30.0  dev.B"
log dev.A 4.20 dev.B 10.00 dev.C 6.00 dev.New 20.00
expect "     3.0     20.0  dev.New (new, or was shorter)"
log dev.A 4.20 dev.B 10.00
expect "$none"
if "$root/scripts/time_budget.sh" "$folder/no_log" 2> /dev/null; then
  printf 'time_budget.sh: took a log that does not exist\n' >&2
  exit 1
fi

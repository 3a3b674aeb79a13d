#!/usr/bin/env bash
# Says which tests take longer than they did, by the log of a run of ctest (LastTest.log):
#   scripts/time_budget.sh LOG            compares it with tests/time_budget.tsv
#   scripts/time_budget.sh LOG --write    makes that file from it
# Machines differ in speed, so a test grew when its seconds did against the median of all tests.
# It fails on misuse alone: seconds are no reason to refuse a change, but to look at it.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $# == 1 || ($# == 2 && "$2" == --write) ]] || die "usage: scripts/time_budget.sh LOG [--write]"
[[ -f "$1" ]] ||
  die "there is no file $1; scripts/test.sh leaves build/all/Testing/Temporary/LastTest.log"
budget="${SPOTPS_TIME_BUDGET:-$ROOT/tests/time_budget.tsv}"
kept_s=3 # shorter tests are not listed: what they take is noise

# Suites of one name, in two programs, are added up.
seconds="$(awk '
  /^[0-9]+\/[0-9]+ Testing: / { name = $3 }
  /^Test time = / { total[name] += $4 }
  END { for (name in total) { printf "%s\t%.1f\n", name, total[name] } }' "$1" | sort)"

if [[ $# == 2 ]]; then
  awk -v kept="$kept_s" '$2 >= kept' <<< "$seconds" > "$budget"
  say "time_budget: $(wc -l < "$budget") tests of $kept_s s and more are in $budget"
  exit
fi
[[ -f "$budget" ]] || die "there is no file $budget; make it with --write"

median="$(join <(sort "$budget") <(printf '%s\n' "$seconds") | awk '{ print $3 / $2 }' |
  sort -g | awk '{ ratio[NR] = $1 } END { print NR ? ratio[int((NR + 1) / 2)] : 1 }')"
join -a 2 -e 0 -o 0,1.2,2.2 <(sort "$budget") <(printf '%s\n' "$seconds") |
  awk -v median="$median" -v kept="$kept_s" '
    {
      planned = ($2 > kept ? $2 : kept) * median
      if ($3 > 2 * planned && $3 - planned > 5) {
        if (!grown++) {
          printf "\ntests that grew, in seconds; planned: tests/time_budget.tsv times %.2f, the " \
                 "median of this run\n%8s %8s\n", median, "planned", "now"
        }
        printf "%8.1f %8.1f  %s%s\n", planned, $3, $1, $2 == 0 ? " (new, or was shorter)" : ""
      }
    }
    END { if (!grown) { printf "\nno test grew to more than twice its share of the time\n" } }'

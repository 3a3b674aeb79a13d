#!/usr/bin/env bash
# tiny.sh NETNS_EXPERIMENT PSCTL: a few short runs and loss curves, and a plan by the profile that
# they make. Exit status 77 and the reason where hosts can't be built.
set -euo pipefail

experiment="$1"
psctl="$2"

say() { printf '%s\n' "$*" >&2; }

# catalog: the experiment's workers, behind servers of any of its links.
catalog() {
  local name separator=""
  printf '{"provider": "nobody", "region": "here", "as_of": "2026-01-01", "source": "-",'
  printf ' "types": ['
  for name in step100 step120 step140; do
    printf '%s{"name": "%s", "device": "cpu", "vcpus": 1, "memory_gib": 4,' "$separator" "$name"
    printf ' "network_gbit_per_s": 0.2, "on_demand_usd_per_hour": 1, "quota": 2,'
    printf ' "is_server_host": true}'
    separator=", "
  done
  printf ']}\n'
}

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
profile="$folder/profile.json"
"$experiment" --grid test --profile "$profile"

# The fleets whose curves psctl profile learns, besides one worker, which a profile leaves unsaid.
for workers in 2 4 6 8; do
  grep -q "\"workers\": ${workers}[,}]" "$profile" || {
    say "tiny.sh: no loss curve of $workers workers"
    exit 1
  }
done
catalog > "$folder/catalog.json"
"$psctl" plan --profile "$profile" --catalog "$folder/catalog.json" --market on-demand \
  --loss "$(sed -n 's/.*"loss_min": \([0-9.]*\).*/\1/p' "$profile")"
# A profile that is there is read, and not measured again.
"$experiment" --profile "$profile"

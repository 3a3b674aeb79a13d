#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds what is needed, holds the CUDA kernels to the parity
# tables, and writes what came out as a table and as JSON into the folder given, build/gpu_check
# otherwise. Needs no network. Exit status 77 and the reason where there is no GPU.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [[ $# -gt 1 || "${1:-}" == -* ]]; then
  say "usage: scripts/gpu_check.sh [FOLDER]"
  exit 2
fi
out="${1:-$ROOT/build/gpu_check}"

say "gpu_check: building build/cuda"
configure cuda
build cuda cuda_parity >&2
mkdir -p "$out"

program="$ROOT/build/cuda/tests/cuda_parity"
declare -A options=([cublaslt]="" [own_kernels]="--own-gemm")
passed=0
failed=0
device=""
: > "$out/rows"
for gemm in cublaslt own_kernels; do
  log="$out/parity_$gemm.log"
  status=0
  # shellcheck disable=SC2086 # no option is no argument
  (cd "$ROOT" && "$program" ${options[$gemm]}) > "$log" 2>&1 || status=$?
  if [[ "$status" == 77 ]]; then
    reason="$(sed -n 's/^SKIP: //p' "$log")"
    if [[ "$gemm" == cublaslt && "$reason" == *cublasLt* ]]; then
      say "gpu_check: without cuBLASLt: $reason"
      continue
    fi
    echo "SKIP: $reason"
    exit 77
  fi
  device="$(sed -n 's/^device: //p' "$log")"
  while read -r result name milliseconds; do
    printf '%s\t%s\t%s\t%s\n' "$gemm" "$name" "$result" "$milliseconds" >> "$out/rows"
    if [[ "$result" == passed ]]; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
    fi
  done < <(sed -nE -e 's/^\[       OK \] ([^ ]+) \(([0-9]+) ms\)$/passed \1 \2/p' \
    -e 's/^\[  FAILED  \] ([^ ]+)(, where .*)? \(([0-9]+) ms\)$/failed \1 \3/p' "$log")
  if [[ "$status" != 0 && "$failed" == 0 ]]; then
    tail -n 20 "$log" >&2
    die "the parity test ended with status $status; its whole output is in $log"
  fi
done

driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2> /dev/null | head -n 1)" ||
  driver="unknown"
{
  printf 'device  %s\ndriver  %s\ndate    %s\n' "$device" "$driver" "$(date -u +%Y-%m-%d)"
  printf 'commit  %s\n\n' "$(git -C "$ROOT" rev-parse HEAD 2> /dev/null || echo unknown)"
  awk -F '\t' '{ printf "%-12s %-72s %-7s %6d ms\n", $1, $2, $3, $4 }' "$out/rows"
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
} | tee "$out/table.txt"
{
  printf '{"device": "%s", "driver": "%s", "date": "%s", "tests": [\n' \
    "$device" "$driver" "$(date -u +%Y-%m-%d)"
  awk -F '\t' '{
    printf "%s  {\"gemm\": \"%s\", \"test\": \"%s\"", (NR == 1 ? "" : ",\n"), $1, $2
    printf ", \"result\": \"%s\", \"ms\": %d}", $3, $4
  }' "$out/rows"
  printf '\n]}\n'
} > "$out/result.json"
rm "$out/rows"
say "gpu_check: $out/table.txt and $out/result.json"
[[ "$failed" == 0 ]]

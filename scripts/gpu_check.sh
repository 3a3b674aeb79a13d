#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds what is needed, holds the CUDA kernels to the parity
# tables, trains models on the device, in f32 and in bf16, and compares their losses with the CPU's,
# measures each op against what the device does at most, and writes what came out as a table and as
# JSON into the folder given, build/gpu_check otherwise. Needs no network; models of images are
# trained where Debian has installed Fashion-MNIST, those of texts on the manual. Exit status 77 and
# the reason where there is no GPU.
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
build cuda cuda_parity bench_kernels psctl ps_agent ps_server ps_worker >&2
mkdir -p "$out"

# losses_of MODEL DEVICE PRECISION: one worker trains MODEL on DEVICE. Prints the loss on the test
# samples after each epoch, and at the end samples per second of computation.
losses_of() {
  local summary job=fashion_mnist_cnn settings
  case "$1" in
    gpt | bert)
      job="$1_text"
      settings=(--set "data.directory=$out/texts" --set data.context=64 --set train.minibatch=8) ;;
    *) settings=(--set "model.name=$1" --set data.train_samples=2048 --set data.test_samples=512) ;;
  esac
  summary="$("$ROOT/build/cuda/bin/psctl" train "$ROOT/configs/$job.json" --json \
    --no-refine --set 'faults=[]' --set train.mode=bsp "${settings[@]}" \
    --set train.epochs=3 --set checkpoint.enabled=false --set "run.directory=$out/runs" \
    --set "train.precision=$3" \
    --set "workers=[{\"count\": 1, \"device\": \"$2\"}]" 2> "$out/train_$1_$2_$3.log")" || return 1
  grep -o '"evaluations":\[[^]]*\]' <<< "$summary" | grep -o '"loss":[^,}]*' | cut -d : -f 2
  grep -o '"workers":\[[^]]*\]' <<< "$summary" |
    sed -nE 's/.*"samples_counted":([0-9]+).*"compute_s":([0-9.e+-]+).*/\1 \2/p' |
    awk '{ printf "%.0f\n", $1 / $2 }'
}

program="$ROOT/build/cuda/tests/cuda_parity"
declare -A options=([cublaslt]="" [own_kernels]="--own-gemm")
passed=0
failed=0
device=""
: > "$out/rows"
: > "$out/training"
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

# Every loss within 5 % of the CPU's in f32: the same arithmetic in another order of sums, or by
# factors of 8 bits.
data=/usr/share/datasets/fashion-mnist
models=(gpt bert)
if [[ -d "$data" ]]; then
  models+=(mlp cnn resnet20 resnet56)
else
  say "gpu_check: no model of images is trained: no dataset in $data"
fi
mkdir -p "$out/texts"
cat "$ROOT"/docs/*.md > "$out/texts/manual.txt"
for model in "${models[@]}"; do
  say "gpu_check: training $model on the CPU"
  losses_of "$model" cpu f32 > "$out/losses_cpu" || : > "$out/losses_cpu"
  for precision in f32 bf16; do
    say "gpu_check: training $model on the device, $precision"
    result=failed
    if losses_of "$model" cuda:0 "$precision" > "$out/losses_cuda" &&
      paste "$out/losses_cpu" "$out/losses_cuda" | head -n -1 | awk '
        { if ($2 < 0.95 * $1 || $2 > 1.05 * $1 || $2 != $2 + 0) bad = 1 }
        END { exit bad || NR < 3 }'
    then
      result=passed
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
    fi
    printf 'training\t%s\t%s\t0\n' "$model, $precision" "$result" >> "$out/rows"
    paste "$out/losses_cpu" "$out/losses_cuda" | awk -v model="$model" -v precision="$precision" '
      { cpu[NR] = $1; cuda[NR] = $2 }
      END {
        for (i = 1; i < NR; ++i)
          printf "%s\t%s\t%d\t%s\t%s\n", model, precision, i, cpu[i], cuda[i]
        printf "%s\t%s\tsamples/s\t%s\t%s\n", model, precision, cpu[NR], cuda[NR]
      }' >> "$out/training"
  done
done

say "gpu_check: measuring ops"
"$ROOT/build/cuda/bench/bench_kernels" --device cuda:0 > "$out/kernels.txt" ||
  failed=$((failed + 1))

driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2> /dev/null | head -n 1)" ||
  driver="unknown"
{
  printf 'device  %s\ndriver  %s\ndate    %s\n' "$device" "$driver" "$(date -u +%Y-%m-%d)"
  printf 'commit  %s\n\n' "$(git -C "$ROOT" rev-parse HEAD 2> /dev/null || echo unknown)"
  awk -F '\t' '{ printf "%-12s %-72s %-7s %6d ms\n", $1, $2, $3, $4 }' "$out/rows"
  printf '\n%-10s %-10s %10s %12s %12s\n' model precision epoch "CPU, f32" device
  awk -F '\t' '{ printf "%-10s %-10s %10s %12s %12s\n", $1, $2, $3, $4, $5 }' "$out/training"
  printf '\n'
  cat "$out/kernels.txt"
  printf '\n%d passed, %d failed\n' "$passed" "$failed"
} | tee "$out/table.txt"
{
  printf '{"device": "%s", "driver": "%s", "date": "%s", "tests": [\n' \
    "$device" "$driver" "$(date -u +%Y-%m-%d)"
  awk -F '\t' '{
    printf "%s  {\"gemm\": \"%s\", \"test\": \"%s\"", (NR == 1 ? "" : ",\n"), $1, $2
    printf ", \"result\": \"%s\", \"ms\": %d}", $3, $4
  }' "$out/rows"
  printf '\n], "training": [\n'
  awk -F '\t' '{
    printf "%s  {\"model\": \"%s\", \"precision\": \"%s\"", (NR == 1 ? "" : ",\n"), $1, $2
    printf ", \"%s\": \"%s\", \"cpu\": \"%s\", \"device\": \"%s\"}", \
      ($3 == "samples/s" ? "figure" : "loss_after_epoch"), $3, $4, $5
  }' "$out/training"
  printf '\n]}\n'
} > "$out/result.json"
rm -f "$out/rows" "$out/training" "$out/losses_cpu" "$out/losses_cuda"
say "gpu_check: $out/table.txt and $out/result.json"
[[ "$failed" == 0 ]]

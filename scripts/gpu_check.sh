#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: holds the CUDA kernels to the parity tables and to PyTorch's
# figures, trains every model on the device, in f32 and in bf16, and compares their losses with the
# CPU's, measures each op against what the device does at most, compares with PyTorch where python3
# has it, and writes what came out as a table and as JSON into FOLDER, build/gpu_check otherwise.
# Needs no network. Exit status 77 and the reason where there is no GPU.
#
#     scripts/gpu_check.sh [--only PART[,PART]] [--models MODEL[,MODEL]] [FOLDER]
#
# PART is build, parity, sanitizers, training, kernels, step, pytorch or report; all of them else.
# Each leaves its figures in FOLDER and report puts together what is there, so that the parts, and
# the models one by one, can be run where a command may take ten minutes at most. What a device has
# to show first is meant to take nine: --only parity,sanitizers,kernels,step,report.
#
# A machine without our libraries, compilers or data sets: run `scripts/gpu_check.sh --only pack` on
# one that has them and a toolkit, with or without a GPU. It makes build/gpu_kit: programs, their
# libraries, some pictures. With that folder the repository needs bash and a driver alone.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

PARTS=(build parity sanitizers training kernels step pytorch report)
TEXT_MODELS=(gpt bert)
IMAGE_MODELS=(mlp cnn resnet20 resnet32 resnet56 resnet110 resnet50 vgg16 vgg19)
# A program that hangs on a device is ended, and the rest goes on.
LIMIT_S=480
SANITIZER_LIMIT_S=120
# Cases of every kernel that a sanitizer may have time for.
SANITIZED='*OpParity.Forward*:*OpParity.SameInput*:StreamParity*:LossParity*:WideLossTest*'
SANITIZED+=':LayerNormTest*:AttentionParityTest.L*:EncodeParity*:OptimizerTest.Many*:PicturesTest*'
# One test has the device refuse memory, which counts as an error of the API.
SANITIZED+=':Bf16Parity*:-StreamParity.TooMuch*'
KIT="$ROOT/build/gpu_kit"

usage() {
  say "usage: scripts/gpu_check.sh [--only PART[,PART]] [--models MODEL[,MODEL]] [FOLDER]"
  say "parts: ${PARTS[*]}, pack; models: ${TEXT_MODELS[*]} ${IMAGE_MODELS[*]}"
  exit 2
}

only=""
chosen=""
while [[ "${1:-}" == -* ]]; do
  [[ $# -ge 2 ]] || usage
  case "$1" in
    --only) only="$2" ;;
    --models) chosen="$2" ;;
    *) usage ;;
  esac
  shift 2
done
[[ $# -le 1 ]] || usage
for part in ${only//,/ }; do
  [[ " ${PARTS[*]} pack " == *" $part "* ]] || usage
done
for model in ${chosen//,/ }; do
  [[ " ${TEXT_MODELS[*]} ${IMAGE_MODELS[*]} " == *" $model "* ]] || usage
done
mkdir -p "${1:-$ROOT/build/gpu_check}"
out="$(cd "${1:-$ROOT/build/gpu_check}" && pwd)"

# Whether to do PART; "pack" is done only when it is asked for.
wants() {
  [[ ",$only," == *",$1,"* || (-z "$only" && "$1" != pack) ]]
}

if [[ -d "$KIT" ]] && ! wants pack; then
  programs="$KIT"
  export LD_LIBRARY_PATH="$KIT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
else
  programs="$ROOT/build/cuda"
fi
data=/usr/share/datasets/fashion-mnist
[[ -d "$KIT/fashion-mnist" ]] && data="$KIT/fashion-mnist"

build_programs() {
  say "gpu_check: building build/cuda"
  configure cuda
  build cuda cuda_parity bench_kernels bench_step psctl ps_agent ps_coordinator ps_server \
    ps_worker >&2
}

# idx FILE COUNT HEADER VALUE_BYTES: the first values of an IDX file, with another header.
idx() {
  local header_bytes=$((${#3} / 4))
  printf '%b' "$3"
  set +o pipefail  # head ends first
  gzip -dc "/usr/share/datasets/fashion-mnist/$1.gz" 2> /dev/null |
    tail -c "+$((header_bytes + 1))" | head -c "$(($2 * $4))"
  set -o pipefail
}

pack() {
  build_programs
  rm -rf "$KIT"
  mkdir -p "$KIT"/{bin,tests,bench,lib,fashion-mnist}
  cp "$ROOT"/build/cuda/bin/{psctl,ps_agent,ps_coordinator,ps_server,ps_worker} "$KIT/bin"
  cp "$ROOT/build/cuda/tests/cuda_parity" "$KIT/tests"
  cp "$ROOT"/build/cuda/bench/{bench_kernels,bench_step} "$KIT/bench"
  strip "$KIT"/{bin,tests,bench}/*
  # All libraries but the C library's, which belong to the machine's kernel and loader.
  ldd "$KIT"/{bin,tests,bench}/* | sed -nE 's/.* => (\/[^ ]+) .*/\1/p' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv)\.so' | xargs cp -Lt "$KIT/lib"
  local train=4096 test=1000 set count
  for set in train t10k; do
    count=$([[ "$set" == train ]] && echo "$train" || echo "$test")
    count="$(printf '\\x%02x\\x%02x\\x%02x\\x%02x' 0 0 $((count / 256)) $((count % 256)))"
    idx "$set-images-idx3-ubyte" "$([[ "$set" == train ]] && echo "$train" || echo "$test")" \
      "\\x00\\x00\\x08\\x03$count\\x00\\x00\\x00\\x1c\\x00\\x00\\x00\\x1c" 784 \
      > "$KIT/fashion-mnist/$set-images-idx3-ubyte"
    idx "$set-labels-idx1-ubyte" "$([[ "$set" == train ]] && echo "$train" || echo "$test")" \
      "\\x00\\x00\\x08\\x01$count" 1 > "$KIT/fashion-mnist/$set-labels-idx1-ubyte"
  done
  git -C "$ROOT" rev-parse HEAD > "$KIT/commit" 2> /dev/null || echo unknown > "$KIT/commit"
  say "gpu_check: $KIT, $(du -sm "$KIT" | cut -f 1) MB; needs the C library of this machine," \
    "$(ldd --version | head -n 1 | grep -oE '[0-9.]+$'), or a newer one"
}

# Ends the script with status 77 and the reason where there is no device.
find_device() {
  local log="$out/device.log"
  if [[ ! -x "$programs/tests/cuda_parity" ]]; then
    die "$programs has no programs; run scripts/gpu_check.sh --only build"
  fi
  if ! (cd "$ROOT" && timeout 60 "$programs/tests/cuda_parity" --own-gemm '--gtest_filter=-*') \
    > "$log" 2>&1; then
    if grep -q '^SKIP: ' "$log"; then
      sed -n '/^SKIP: /p' "$log"
      exit 77
    fi
    cat "$log" >&2
    die "the parity program does not start"
  fi
  sed -n 's/^device: //p' "$log" > "$out/device"
}

# row FILE GROUP NAME RESULT MILLISECONDS
row() { printf '%s\t%s\t%s\t%s\n' "${@:2}" >> "$1"; }

parity() {
  local gemm log status option rows="$out/rows.parity"
  : > "$rows"
  for gemm in cublaslt cublaslt_timed own_kernels; do
    log="$out/parity_$gemm.log"
    status=0
    option=()
    [[ "$gemm" == own_kernels ]] && option=(--own-gemm)
    # What multiplies, and the models of PyTorch's figures.
    [[ "$gemm" == cublaslt_timed ]] &&
      option=(--timed-gemm '--gtest_filter=*/conv2d:*/linear:Bf16*:Golden*:FusedActivation*')
    say "gpu_check: parity, $gemm"
    (cd "$ROOT" && timeout -k 30 "$LIMIT_S" "$programs/tests/cuda_parity" "${option[@]}") \
      > "$log" 2>&1 || status=$?
    if [[ "$status" == 77 ]]; then
      say "gpu_check: without cuBLASLt: $(sed -n 's/^SKIP: //p' "$log")"
      row "$rows" "$gemm" "not to be had here" skipped 0
      continue
    fi
    sed -nE -e "s/^\[       OK \] ([^ ]+) \(([0-9]+) ms\)$/$gemm\t\1\tpassed\t\2/p" \
      -e "s/^\[  FAILED  \] ([^ ]+)(, where .*)? \(([0-9]+) ms\)$/$gemm\t\1\tfailed\t\3/p" \
      "$log" >> "$rows"
    if [[ "$status" != 0 ]] && ! grep -qP "^$gemm\t.*\tfailed\t" "$rows"; then
      tail -n 20 "$log" >&2
      row "$rows" "$gemm" "the program ended with status $status: see $log" failed 0
    fi
  done
}

# Accesses past memory and races within a block, which the emulation sees only where they change a
# result: the smaller cases of the table under compute-sanitizer, where the toolkit has it.
sanitizers() {
  local tool log status rows="$out/rows.sanitizers"
  : > "$rows"
  local sanitizer
  sanitizer="$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer \
    2> /dev/null)" || sanitizer=""
  if [[ -z "$sanitizer" ]]; then
    say "gpu_check: no sanitizers: compute-sanitizer of the CUDA toolkit is not here"
    row "$rows" sanitizers "compute-sanitizer is not here" skipped 0
    return
  fi
  for tool in memcheck racecheck; do
    log="$out/$tool.log"
    status=0
    say "gpu_check: $tool"
    (cd "$ROOT" && timeout -k 30 "$SANITIZER_LIMIT_S" \
      "$sanitizer" --tool "$tool" --error-exitcode 9 "$programs/tests/cuda_parity" \
      --own-gemm "--gtest_filter=$SANITIZED") > "$log" 2>&1 ||
      status=$?
    case "$status" in
      0) row "$rows" sanitizers "$tool" passed 0 ;;
      124 | 137) row "$rows" sanitizers "$tool: $SANITIZER_LIMIT_S s were too few" skipped 0 ;;
      *) row "$rows" sanitizers "$tool, see $tool.log" failed 0 ;;
    esac
  done
}

# losses_of MODEL DEVICE PRECISION: one worker trains MODEL on DEVICE by its file in configs, on
# fewer samples. Prints the loss on the test samples after each epoch, and at the end samples per
# second of computation.
losses_of() {
  local summary samples=2048 threads=1 job settings
  case "$1" in
    gpt | bert) job="$1_text" ;;
    mlp) job=fashion_mnist_mlp_bsp ;;
    resnet20 | resnet110) job="cifar10_$1" ;;
    *) job="fashion_mnist_$1" ;;
  esac
  case "$job" in
    *_text)
      settings=(--set "data.directory=$out/texts" --set data.context=64 --set train.minibatch=8
        --set data.train_samples=1024 --set data.test_samples=50) ;;
    *)
      # Deep and wide ones take minutes on a CPU.
      [[ "$1" =~ ^(resnet110|resnet50|vgg) ]] && samples=1024
      settings=(--set "data.directory=$data" --set "data.train_samples=$samples"
        --set data.test_samples=512 --set train.minibatch=32)
      [[ "$job" == cifar10_* ]] && settings+=(--set data.format=idx --set data.pad=2)
      # With so few samples a step, and so few steps, the loss does not fall at the file's rate.
      [[ "$1" == mlp ]] && settings+=(--set optimizer.lr=0.02)
      [[ "$1" == resnet110 ]] && settings+=(--set optimizer.lr=0.002) ;;
  esac
  [[ "$2" == cpu ]] && threads=$(($(nproc) < 16 ? $(nproc) : 16))
  summary="$(timeout -k 30 "$LIMIT_S" "$programs/bin/psctl" train "$ROOT/configs/$job.json" --json \
    --no-refine --set 'faults=[]' --set train.mode=bsp "${settings[@]}" \
    --set train.epochs=3 --set train.evaluate_every_epochs=1 --set "train.precision=$3" \
    --set checkpoint.enabled=false --set servers.queue_mib=256 --set "run.directory=$out/runs" \
    --set "workers=[{\"count\": 1, \"threads\": $threads, \"device\": \"$2\"}]" \
    2> "$out/train_$1_${2%:*}_$3.log")" || return 1
  grep -o '"evaluations":\[[^]]*\]' <<< "$summary" | grep -o '"loss":[^,}]*' | cut -d : -f 2
  grep -o '"workers":\[[^]]*\]' <<< "$summary" |
    sed -nE 's/.*"samples_counted":([0-9]+).*"compute_s":([0-9.e+-]+).*/\1 \2/p' |
    awk '{ printf "%.0f\n", $1 / $2 }'
}

# train MODEL: every loss is within 5 % of the CPU's in f32, the same arithmetic in another order of
# sums. By factors of 8 bits training goes another way, which may be a better one: no loss is more
# than 10 % above. Batch norms make much of the last bits: there the last loss is meant, and 25 %.
# And the last loss is below the first.
train() {
  local precision result tolerance from=1 rows="$out/rows.training.$1"
  : > "$rows"
  : > "$out/losses.$1"
  say "gpu_check: training $1 on the CPU"
  losses_of "$1" cpu f32 > "$out/losses_cpu" || : > "$out/losses_cpu"
  for precision in f32 bf16; do
    say "gpu_check: training $1 on the device, $precision"
    result=failed
    tolerance=$([[ "$precision" == f32 ]] && echo 0.05 || echo 0.10)
    [[ "$1" =~ ^(resnet|vgg) ]] && tolerance=0.25 from=3
    if losses_of "$1" cuda:0 "$precision" > "$out/losses_cuda" &&
      paste "$out/losses_cpu" "$out/losses_cuda" | head -n -1 |
      awk -v t="$tolerance" -v from="$from" -v precision="$precision" '
        NR == 1 { first = $2 }
        { last = $2 }
        NR >= from && ($2 > (1 + t) * $1 || $2 != $2 + 0) { bad = 1 }
        NR >= from && precision == "f32" && $2 < (1 - t) * $1 { bad = 1 }
        END { exit bad || NR < 3 || last >= first }'
    then
      result=passed
    fi
    row "$rows" training "$1, $precision" "$result" 0
    paste "$out/losses_cpu" "$out/losses_cuda" | awk -v model="$1" -v precision="$precision" '
      { cpu[NR] = $1; cuda[NR] = $2 }
      END {
        for (i = 1; i < NR; ++i)
          printf "%s\t%s\t%d\t%s\t%s\n", model, precision, i, cpu[i], cuda[i]
        printf "%s\t%s\tsamples/s\t%s\t%s\n", model, precision, cpu[NR], cuda[NR]
      }' >> "$out/losses.$1"
  done
  rm -f "$out/losses_cpu" "$out/losses_cuda"
}

training() {
  local models=("${TEXT_MODELS[@]}") model
  if [[ -d "$data" ]]; then
    models+=("${IMAGE_MODELS[@]}")
  else
    say "gpu_check: no model of images is trained: no dataset in $data"
  fi
  mkdir -p "$out/texts"
  cat "$ROOT"/docs/*.md > "$out/texts/manual.txt"
  for model in "${models[@]}"; do
    [[ -n "$chosen" && ",$chosen," != *",$model,"* ]] || train "$model"
  done
}

kernels() {
  say "gpu_check: measuring ops"
  : > "$out/rows.kernels"
  timeout -k 30 "$LIMIT_S" "$programs/bench/bench_kernels" --device cuda:0 \
    > "$out/kernels.txt" 2>&1 ||
    row "$out/rows.kernels" kernels "bench_kernels, see kernels.txt" failed 0
}

# step_job MODEL PRECISION: a job of this model whose data are bytes of nothing, for its step alone.
step_job() {
  local inputs="$out/step/$1" side=32 classes=10 minibatch=128 part count
  local more="" rule='{"kind": "sgd", "lr": 1e-3, "momentum": 0.9}' model="{\"name\": \"$1\"}"
  [[ "$1" == resnet50 ]] && side=224 classes=1000 minibatch=64
  mkdir -p "$inputs"
  if [[ "$1" == gpt ]]; then
    model='{"name": "gpt", "depth": 12, "heads": 12, "width": 768}'
    rule='{"kind": "adamw", "lr": 1e-4, "weight_decay": 0.01}'
    minibatch=8 more=', "vocabulary": 50257'
  fi
  for part in train test; do
    count=$([[ "$part" == train ]] && echo 512 || echo 8)
    if [[ "$1" == gpt ]]; then
      # Both bytes of a token below 0xc4: below 50,257 together.
      head -c $((2 * count * 1025)) /dev/urandom | tr '\304-\377' '\000-\073' |
        npy "<u2" "$count, 1025" > "$inputs/$part-inputs.npy"
    else
      head -c $((count * 3 * side * side)) /dev/urandom |
        npy "|u1" "$count, 3, $side, $side" > "$inputs/$part-inputs.npy"
      labels "$count" "$classes" | npy "<u2" "$count," > "$inputs/$part-labels.npy"
    fi
  done
  printf '{"name": "step-%s", "model": %s, "optimizer": %s,
    "data": {"format": "npy", "directory": "%s"%s},
    "train": {"minibatch": %d, "precision": "%s", "local_steps": 8}}\n' \
    "$1" "$model" "$rule" "$inputs" "$more" "$minibatch" "$2"
}

# npy TYPE SHAPE: what comes as an array of numpy, version 1, with a header of 128 bytes.
npy() {
  printf '\x93NUMPY\x01\x00\x76\x00'
  printf '%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"
  cat
}

# labels COUNT CLASSES: from the largest class down, as 16 bits each.
labels() {
  local i label
  for ((i = 0; i < $1; ++i)); do
    label=$(($2 - 1 - i % $2))
    printf '%b' "$(printf '\\x%02x\\x%02x' $((label % 256)) $((label / 256)))"
  done
}

# The step alone, without servers, and the same whose gradients come to the host.
step() {
  local model precision
  : > "$out/rows.step"
  for model in resnet20 resnet110 resnet50 gpt; do
    [[ -z "$chosen" || ",$chosen," == *",$model,"* ]] || continue
    for precision in f32 bf16; do
      say "gpu_check: the step of $model in $precision"
      step_job "$model" "$precision" > "$out/step.$model.$precision.job.json"
      timeout -k 30 "$LIMIT_S" "$programs/bench/bench_step" --device cuda:0 --runs 3 \
        --job "$out/step.$model.$precision.job.json" > "$out/step.$model.$precision.txt" 2>&1 ||
        row "$out/rows.step" step "$model in $precision, see step.$model.$precision.txt" failed 0
    done
  done
}

# Samples per second beside PyTorch's; nothing where no Python has it or it finds no device.
pytorch() {
  local python model precision
  python="$(find_pytorch)" || python=""
  if [[ -z "$python" ]] ||
    ! "$python" -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then
    say "gpu_check: no comparison with PyTorch: no python3 here has it with CUDA, and nothing is" \
      "downloaded"
    return
  fi
  : > "$out/rows.pytorch"
  for model in resnet20 resnet110 resnet50 gpt; do
    [[ -z "$chosen" || ",$chosen," == *",$model,"* ]] || continue
    for precision in f32 bf16; do
      say "gpu_check: $model in $precision beside PyTorch"
      rm -f "$out/pytorch.$model.$precision.json"
      timeout -k 30 "$LIMIT_S" "$ROOT/scripts/compare_pytorch.sh" --device cuda --rounds 2 \
        --seconds 5 --precision "$precision" --local-steps 1,4,8 \
        --step "$programs/bench/bench_step" --programs "$programs/bin" \
        --json "$out/pytorch.$model.$precision.json" "$model" \
        > "$out/pytorch.$model.$precision.txt" 2> "$out/pytorch.$model.$precision.log" ||
        row "$out/rows.pytorch" pytorch "$model, see pytorch.$model.$precision.log" failed 0
    done
  done
}

# Tables of FILES one behind the other, if there are any.
all_of() { cat "$@" 2> /dev/null || true; }

# The table of bench_kernels as JSON: medians, in GB/s or GFLOP/s, and percent of the best that the
# same run measured.
kernels_json() {
  awk -F '  +' '
    function number(text) { return text + 0 }
    $2 == "GB/s" || $2 == "GFLOP/s" {
      printf "%s  {\"op\": \"%s\", \"unit\": \"%s\"", (rows++ == 0 ? "" : ",\n"), $1, $2
      printf ", \"forward\": %s, \"forward_percent\": %s", number($3), number($4)
      printf ", \"backward\": %s, \"backward_percent\": %s", number($5), number($6)
      printf ", \"best\": %s}", number($7)
    }'
}

report() {
  local driver commit device date passed failed
  device="$(cat "$out/device")"
  date="$(date -u +%Y-%m-%d)"
  driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2> /dev/null |
    head -n 1)" || driver="unknown"
  commit="$(git -C "$ROOT" rev-parse HEAD 2> /dev/null || all_of "$KIT/commit")"
  all_of "$out"/rows.* > "$out/all"
  passed="$(awk -F '\t' '$3 == "passed"' "$out/all" | wc -l)"
  failed="$(awk -F '\t' '$3 == "failed"' "$out/all" | wc -l)"
  {
    printf 'device  %s\ndriver  %s\ndate    %s\n' "$device" "$driver" "$date"
    printf 'commit  %s\n\n' "${commit:-unknown}"
    awk -F '\t' '{ printf "%-12s %-72s %-7s %6d ms\n", $1, $2, $3, $4 }' "$out/all"
    printf '\n%-10s %-10s %10s %12s %12s\n' model precision epoch "CPU, f32" device
    all_of "$out"/losses.* |
      awk -F '\t' '{ printf "%-10s %-10s %10s %12s %12s\n", $1, $2, $3, $4, $5 }'
    printf '\n'
    all_of "$out/kernels.txt"
    printf '\n'
    all_of "$out"/step.*.txt
    printf '\n'
    all_of "$out"/pytorch.*.txt
    printf '\n%d passed, %d failed\n' "$passed" "$failed"
  } | tee "$out/table.txt"
  {
    printf '{"device": "%s", "driver": "%s", "date": "%s", "tests": [\n' "$device" "$driver" "$date"
    awk -F '\t' '{
      printf "%s  {\"gemm\": \"%s\", \"test\": \"%s\"", (NR == 1 ? "" : ",\n"), $1, $2
      printf ", \"result\": \"%s\", \"ms\": %d}", $3, $4
    }' "$out/all"
    printf '\n], "training": [\n'
    all_of "$out"/losses.* | awk -F '\t' '{
      printf "%s  {\"model\": \"%s\", \"precision\": \"%s\"", (NR == 1 ? "" : ",\n"), $1, $2
      printf ", \"%s\": \"%s\", \"cpu\": \"%s\", \"device\": \"%s\"}", \
        ($3 == "samples/s" ? "figure" : "loss_after_epoch"), $3, $4, $5
    }'
    printf '\n], "kernels": [\n'
    all_of "$out/kernels.txt" | kernels_json
    printf '\n], "pytorch": [\n'
    all_of "$out"/pytorch.*.json | awk '{ printf "%s  %s", (NR == 1 ? "" : ",\n"), $0 }'
    printf '\n]}\n'
  } > "$out/result.json"
  rm -f "$out/all"
  say "gpu_check: $out/table.txt and $out/result.json"
  [[ "$failed" == 0 ]]
}

if wants pack; then
  pack
fi
if wants build && [[ "$programs" != "$KIT" ]]; then
  build_programs
fi
if [[ "$only" =~ ^(build|pack)(,(build|pack))?$ ]]; then
  exit 0
fi
find_device
if [[ -z "$only$chosen" ]]; then
  # Those of another commit.
  rm -f "$out"/rows.* "$out"/losses.* "$out"/pytorch.* "$out"/step.* "$out/kernels.txt"
fi
for part in parity sanitizers training kernels step pytorch report; do
  if wants "$part"; then
    "$part"
  fi
done

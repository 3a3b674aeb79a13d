# shellcheck shell=bash
# What the scripts share. Sourced, not run; the caller has set -euo pipefail.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# The first is the reference, the others are for where it can't be had.
COMPILER_PREFERENCE=(clang++-19 clang++-20 clang++-18 clang++-17 clang++-16 g++-14 g++-13 g++-12)

say() { printf '%s\n' "$*" >&2; }

die() {
  say "spotps: $*"
  exit 1
}

# Prints the first acceptable compiler that is installed; fails when there is none.
find_compiler() {
  local name
  for name in "${COMPILER_PREFERENCE[@]}"; do
    if command -v "$name" > /dev/null; then
      printf '%s\n' "$name"
      return 0
    fi
  done
  return 1
}

# configure PRESET [CMAKE_ARGUMENT...]: quiet when it goes well.
configure() {
  local preset="$1" compiler log
  shift
  compiler="$(find_compiler)" || die "no compiler; run scripts/setup.sh"
  log="$(mktemp)"
  if ! (cd "$ROOT" && cmake --preset "$preset" -DCMAKE_CXX_COMPILER="$compiler" "$@") \
    > "$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    die "configuring build/$preset failed"
  fi
  rm -f "$log"
}

# Prints the CMake arguments that compile many sources at a time, since they share headers and
# templates. Nothing for a build that is there: after an edit, a source alone is compiled faster.
joined_if_fresh() {
  if [[ ! -e "$ROOT/build/$1/CMakeCache.txt" ]]; then
    printf '%s\n' -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=24 -DPS_JOINED_TESTS_MAX=30
  fi
}

# Whether this machine has an NVIDIA device with a driver, WSL's included.
has_cuda_device() {
  [[ -e /dev/nvidiactl || -e /dev/nvidia0 ]] ||
    { [[ -e /dev/dxg ]] && nvidia-smi -L > /dev/null 2>&1; }
}

# build PRESET [TARGET...]
build() {
  local preset="$1"
  shift
  cmake --build "$ROOT/build/$preset" --parallel "$(nproc)" ${1:+--target "$@"}
}

# Prints a Python with PyTorch from 2.0 on: that of build/pytorch, else python3. Fails when neither
# has it.
find_pytorch() {
  local python
  for python in "$ROOT/build/pytorch/bin/python" python3; do
    if "$python" -c "import torch; torch.compile" 2> /dev/null; then
      printf '%s\n' "$python"
      return 0
    fi
  done
  return 1
}

# tarball_platform FILE: prints what a tarball of scripts/tarball.sh says that it needs, as lines
# name=value. Fails when it is none.
tarball_platform() {
  tar --extract --gzip --to-stdout --occurrence=1 --wildcards --file="$1" 'spotps-*/PLATFORM' \
    2> /dev/null | grep -Ex '[a-z]+=[A-Za-z0-9_.]+' ||
    die "$1 is no tarball of spotps, or not all of it; allowed: a spotps-*.tar.gz or spotps_*.deb" \
      "that scripts/package.sh has made"
}

# platform_problem PLATFORM MACHINE GLIBC: prints why a tarball that needs PLATFORM (see
# tarball_platform) does not run on a machine of the kind that `uname -m` names, with this glibc.
platform_problem() {
  local architecture glibc
  architecture="$(sed -n 's/^architecture=//p' <<< "$1")"
  glibc="$(sed -n 's/^glibc=//p' <<< "$1")"
  if [[ $2 != "$architecture" ]]; then
    printf '%s\n' "it is a machine of $2 and the package is for $architecture: make one on a $2"
  elif [[ -z $3 ]]; then
    printf '%s\n' "it has no glibc; take Debian 12, Ubuntu 22.04 or newer"
  elif [[ "$(printf '%s\n' "$3" "$glibc" | sort -V | tail -n 1)" != "$3" ]]; then
    printf '%s %s\n' "it has glibc $3 and the package needs $glibc or newer: take Debian 12," \
      "Ubuntu 22.04 or newer there, or make the package on an older system"
  fi
}

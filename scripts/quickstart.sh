#!/usr/bin/env bash
# From a fresh clone to a trained model: installs what is missing, builds the programs, runs the
# main job. CUDA is compiled where there is a device, or with --cuda, which comes first.
#
# With --package FILE, which comes first, nothing is compiled: FILE is what scripts/package.sh has
# made, a tarball, which is unpacked in build/package, or a .deb, which is installed.
#
# Other arguments go to `psctl train`, e.g. scripts/quickstart.sh --set train.epochs=1
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# use_package FILE: sets psctl to that of the package.
use_package() {
  local file="$1" folder="$ROOT/build/package" problem
  [[ -r $file ]] || die "there is no file $file (--package); scripts/package.sh makes one"
  if [[ $file == *.deb ]]; then
    "$ROOT/scripts/setup.sh" --package "$file"
    psctl=/usr/bin/psctl
    return
  fi
  problem="$(platform_problem "$(tarball_platform "$file")" "$(uname -m)" \
    "$(getconf GNU_LIBC_VERSION 2> /dev/null | sed 's/^glibc //')")"
  [[ -z $problem ]] || die "$file does not run on this machine: $problem"
  "$ROOT/scripts/setup.sh" --package
  say "quickstart: unpacking $file in build/package"
  rm -rf "$folder"
  mkdir -p "$folder"
  tar --extract --gzip --file="$file" --directory="$folder" --strip-components=1 ||
    die "$file could not be unpacked in $folder"
  psctl="$folder/bin/psctl"
  "$psctl" --version > /dev/null ||
    die "the programs of $file do not run here; they are for Debian 12, Ubuntu 22.04 and newer"
}

build_programs() {
  local cuda="$1"
  local -a joined
  "$ROOT/scripts/setup.sh"
  say "quickstart: building release in build/release, CUDA $cuda"
  mapfile -t joined < <(joined_if_fresh release)
  configure release -DPS_TESTS=OFF -DPS_CUDA="$cuda" "${joined[@]}"
  build release psctl ps_agent ps_coordinator ps_server ps_worker >&2
  psctl="$ROOT/build/release/bin/psctl"
}

if [[ "${1:-}" == --package ]]; then
  [[ -n "${2:-}" ]] || die "--package needs a file: spotps-*.tar.gz or spotps_*.deb"
  use_package "$2"
  shift 2
elif [[ "${1:-}" == --cuda ]]; then
  shift
  build_programs ON
elif has_cuda_device; then
  build_programs AUTO
else
  build_programs OFF
fi
cd "$ROOT"
exec "$psctl" train configs/fashion_mnist_cnn.json "$@"

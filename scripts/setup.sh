#!/usr/bin/env bash
# Installs what is missing to build and run on Debian 12 or Ubuntu 24.04; with --tests also what the
# tests need; with --package what the demo needs beside a package, and FILE.deb itself where that is
# one. Does nothing, fast, when all is there. Uses sudo when not root.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# One line a need; the first name that the distribution has is taken.
NEEDS=(
  "cmake"
  "ninja-build"
  "ccache"
  "libasio-dev"
  "libflatbuffers-dev"
  "flatbuffers-compiler"
  "libdnnl-dev libonednn-dev"
  "libcli11-dev"
  "libfmt-dev"
  "librocksdb-dev"
  "libzstd-dev"
  "libcurl4-openssl-dev"
  "libssl-dev"
  "libisal-dev"
  "libjpeg-dev"
  "libpng-dev"
  "libmicrohttpd-dev"
  "dataset-fashion-mnist"
)
TEST_NEEDS=(
  "libgtest-dev"
  "libgmock-dev"
  "zlib1g-dev"
  "clang-format-14"
  "lld"
  "iproute2"
  "python3-pip"
  "python3-venv"
  "python3-wheel"
  "openssh-server"
  "slurm-wlm"
  "munge"
)
# Tests that need one of these skip, with the reason, where the distribution has no such package:
# Ubuntu has Chromium as a snap alone. Some 110 MB to fetch in all.
WISHED_FOR_TESTS=(
  "prometheus"
  "chromium"
  "chromium-driver"
)
case "${1:-}" in
  "") ;;
  --tests) NEEDS+=("${TEST_NEEDS[@]}") ;;
  --package) NEEDS=("dataset-fashion-mnist") ;;
  *)
    say "usage: scripts/setup.sh [--tests | --package [FILE.deb]]"
    exit 2
    ;;
esac
with_tests=""
[[ "${1:-}" != --tests ]] || with_tests="$1"

log=""

is_installed() {
  [[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" == installed ]]
}

has_candidate() {
  local candidate
  candidate="$(apt-cache policy "$1" 2> /dev/null | sed -n 's/^  Candidate: //p')"
  [[ -n "$candidate" && "$candidate" != "(none)" ]]
}

# Not every distribution has kubectl: without it tests skip.
if [[ -n "$with_tests" ]] && ! command -v kubectl > /dev/null &&
  has_candidate kubernetes-client; then
  NEEDS+=("kubernetes-client")
fi

as_root() {
  if [[ "$(id -u)" == 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

# Prints the packages of NEEDS that are not there, one need a line.
missing_needs() {
  local need name
  for need in "${NEEDS[@]}"; do
    for name in $need; do
      if is_installed "$name"; then
        continue 2
      fi
    done
    printf '%s\n' "$need"
  done
}

# Prints what tests would like to have, is not there and can be had, one a line.
missing_wishes() {
  local name
  [[ -n "$with_tests" ]] || return 0
  for name in "${WISHED_FOR_TESTS[@]}"; do
    if ! is_installed "$name" && has_candidate "$name"; then
      printf '%s\n' "$name"
    fi
  done
}

# Prints the package of the best compiler that can be had, nothing when the best is there.
missing_compiler() {
  local name package
  for name in "${COMPILER_PREFERENCE[@]}"; do
    if command -v "$name" > /dev/null; then
      return 0
    fi
    package="${name/clang++/clang}"
    if has_candidate "$package"; then
      printf '%s\n' "$package"
      return 0
    fi
  done
  return 1
}

# The sanitizers' runtime is a package of its own for clang, part of the compiler for g++.
missing_sanitizers() {
  local compiler="$1" package
  if [[ "$compiler" == clang* ]]; then
    package="libclang-rt-${compiler##*-}-dev"
    if ! is_installed "$package"; then
      printf '%s\n' "$package"
    fi
  fi
}

run_logged() {
  if ! as_root env DEBIAN_FRONTEND=noninteractive "$@" >> "$log" 2>&1; then
    return 1
  fi
}

update_lists() {
  say "setup: reading the package lists"
  run_logged apt-get update || {
    tail -n 20 "$log" >&2
    die "apt-get update failed; its whole output is in $log"
  }
}

# Debian's way to install a service without starting it. A file that is there already comes back
# when this script ends, however it ends.
POLICY=/usr/sbin/policy-rc.d
KEPT_POLICY="$POLICY.before-spotps"
POLICY_TEXT='#!/bin/sh\n# spotps: scripts/setup.sh is installing\nexit 101\n'

forbid_services() {
  if [[ -e "$POLICY" ]] && ! grep -q "^# spotps:" "$POLICY"; then
    as_root mv "$POLICY" "$KEPT_POLICY"
  fi
  trap allow_services EXIT
  # shellcheck disable=SC2059
  printf "$POLICY_TEXT" | as_root tee "$POLICY" > /dev/null
  as_root chmod 755 "$POLICY"
}

allow_services() {
  trap - EXIT
  as_root rm -f "$POLICY"
  if [[ -e "$KEPT_POLICY" ]]; then
    as_root mv "$KEPT_POLICY" "$POLICY"
  fi
}

# Prints the packages that are there, sorted.
installed_packages() {
  dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | sort
}

# Prints the units that systemd starts by itself, sorted. It need not run for that.
enabled_units() {
  find /etc/systemd/system -type l -path '*.wants/*' -printf '%f\n' 2> /dev/null | sort -u
}

# units_of PACKAGE: prints what of it systemd could start by itself.
units_of() {
  dpkg -L "$1" 2> /dev/null |
    sed -n 's,.*/systemd/system/\([^/@]*\.\(service\|socket\|timer\|path\)\)$,\1,p'
}

# disable_new_services PACKAGES UNITS: what was installed and enabled before, one a line. What came
# with other packages since, those that these depend on too, is not started at the next boot either,
# be it that of an image that is being made: the tests start services of their own. The machine's
# own needs are left alone.
disable_new_services() {
  local packages="$1" enabled="$2" package unit
  command -v systemctl > /dev/null || return 0
  while IFS= read -r package; do
    case "$package" in
      systemd* | dbus* | udev) continue ;;
    esac
    while IFS= read -r unit; do
      grep -qxF -- "$unit" <<< "$enabled" || run_logged systemctl disable "$unit" || true
    done < <(units_of "$package")
  done < <(comm -13 <(cat <<< "$packages") <(installed_packages))
}

install() {
  local -a options=(-y --no-install-recommends -o DPkg::Lock::Timeout=300)
  say "setup: installing $*"
  if run_logged apt-get install "${options[@]}" "$@"; then
    return 0
  fi
  # The usual cause is a list that is older than the mirror.
  update_lists
  run_logged apt-get install "${options[@]}" "$@" || {
    tail -n 20 "$log" >&2
    die "installing failed; apt's whole output is in $log"
  }
}

# Prints, for each need given, the name that this distribution has.
choose_packages() {
  local need name
  for need in "$@"; do
    for name in $need; do
      if has_candidate "$name"; then
        printf '%s\n' "$name"
        continue 2
      fi
    done
    return 1
  done
}

# A Python of the tests' own with moto, a server that speaks the protocols of S3 and EC2, the
# reference implementation of safetensors, Kubernetes' schemas, and two checkers of Python. Without
# them, where the Python index can't be reached, tests skip.
install_python() {
  local venv="$ROOT/build/venv"
  if [[ -x "$venv/bin/python3" ]] && [[ -e "$venv/has-kubernetes" ]]; then
    return 0
  fi
  say "setup: installing moto, safetensors, kubernetes-validate, ruff and mypy in build/venv"
  local output
  if ! output="$({ /usr/bin/python3 -m venv "$venv" &&
    "$venv/bin/pip" install --disable-pip-version-check --timeout 20 --retries 1 \
      "moto[s3]" flask flask-cors boto3 safetensors numpy kubernetes-validate ruff mypy &&
    touch "$venv/has-kubernetes"; } 2>&1)"; then
    rm -rf "$venv"
    tail -n 3 <<< "$output" >&2
    say "setup: they can't be had from the Python index, so their tests will skip"
  fi
}

# Notes what apt says from now on.
begin_installing() {
  if [[ "$(id -u)" != 0 ]] && ! command -v sudo > /dev/null; then
    die "packages are missing, and neither root nor sudo is there. As root: $0 $*"
  fi
  log="$(mktemp -t spotps-setup.XXXXXX)"
}

# install_package [FILE.deb]: what is needed to run the demo, where nothing is compiled.
install_package() {
  local -a packages
  command -v apt-get > /dev/null || die "setup knows Debian and Ubuntu only; with a tarball" \
    "elsewhere, put Fashion-MNIST's four files in /usr/share/datasets/fashion-mnist"
  mapfile -t packages < <(missing_needs)
  [[ $# == 0 ]] || packages+=(--reinstall "$(realpath "$1")")
  [[ ${#packages[@]} -gt 0 ]] || return 0
  begin_installing --package "$@"
  has_candidate "${NEEDS[0]}" || update_lists
  install "${packages[@]}"
  rm -f "$log"
}

install_packages() {
  if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
    die "setup knows Debian and Ubuntu only. Elsewhere install a C++20 compiler (clang 16 or g++" \
      "12 and newer) and the equivalents of: ${NEEDS[*]}; then use cmake --preset release"
  fi

  local -a needs
  mapfile -t needs < <(missing_needs)
  local compiler=""
  if [[ ${#needs[@]} == 0 ]] && [[ -z "$(missing_wishes)" ]] && compiler="$(find_compiler)" &&
    [[ "$compiler" == "${COMPILER_PREFERENCE[0]}" ]] &&
    { [[ -z "$with_tests" ]] || [[ -z "$(missing_sanitizers "$compiler")" ]]; }; then
    return 0
  fi

  begin_installing ${with_tests:+--tests}

  # A machine that has never read its lists knows no candidates, and old lists lack the compiler.
  local reference="${COMPILER_PREFERENCE[0]/clang++/clang}"
  if ! has_candidate cmake || { ! find_compiler > /dev/null && ! has_candidate "$reference"; }; then
    update_lists
  fi
  local -a packages
  mapfile -t packages < <(missing_wishes)
  local chosen
  if [[ ${#needs[@]} -gt 0 ]]; then
    if ! chosen="$(choose_packages "${needs[@]}")"; then
      update_lists
      chosen="$(choose_packages "${needs[@]}")" ||
        die "this distribution lacks one of: ${needs[*]} (on Ubuntu, is universe enabled?)"
    fi
    mapfile -t -O "${#packages[@]}" packages <<< "$chosen"
  fi
  chosen="$(missing_compiler)" ||
    die "no clang 16 or newer and no g++ 12 or newer is installed or can be"
  if [[ -n "$chosen" ]]; then
    packages+=("$chosen")
    compiler="${chosen/clang/clang++}"
  else
    compiler="$(find_compiler)"
  fi
  if [[ -n "$with_tests" ]]; then
    chosen="$(missing_sanitizers "$compiler")"
    if [[ -n "$chosen" ]]; then
      packages+=("$chosen")
    fi
  fi
  if [[ ${#packages[@]} -gt 0 ]]; then
    local present enabled
    present="$(installed_packages)"
    enabled="$(enabled_units)"
    forbid_services
    install "${packages[@]}"
    allow_services
    disable_new_services "$present" "$enabled"
  fi
  rm -f "$log"
  if [[ "$(find_compiler)" != "${COMPILER_PREFERENCE[0]}" ]]; then
    say "setup: ${COMPILER_PREFERENCE[0]} can't be had here, building with $(find_compiler)"
  fi
}

# Sourced, by its test: the functions alone.
[[ "${BASH_SOURCE[0]}" == "$0" ]] || return 0
if [[ "${1:-}" == --package ]]; then
  shift
  install_package "$@"
  exit
fi
install_packages
if [[ -n "$with_tests" ]]; then
  install_python
fi

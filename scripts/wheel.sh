#!/usr/bin/env bash
# wheel.sh BIN OUT: makes the wheel of the Python package with libspotps.so of BIN in it, in OUT,
# and prints its path. It is for this machine's kind of processor and a distribution with the same
# libraries (libssl, libcurl, libfmt, libflatbuffers): those that the Debian package depends on.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $# == 2 ]] || die "usage: scripts/wheel.sh BIN OUT"
library="$1/libspotps.so"
[[ -f $library ]] || die "$library is missing; build the target spotps of a release build first"
/usr/bin/python3 -c 'import setuptools, wheel, pip' 2> /dev/null ||
  die "pip, setuptools or wheel is missing; install the packages python3-pip and python3-wheel"
mkdir -p "$2"
out="$(realpath "$2")"

# A copy, so that building leaves nothing in the tree.
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/package" "$folder/made"
cp "$ROOT"/python/{pyproject.toml,README.md} "$folder/package"
cp -r "$ROOT/python/spotps" "$folder/package"
rm -rf "$folder/package/spotps/__pycache__"
strip --strip-unneeded -o "$folder/package/spotps/libspotps.so" "$library"
/usr/bin/python3 -m pip --disable-pip-version-check wheel --quiet --no-index --no-deps \
  --no-build-isolation --config-settings="--build-option=--plat-name=linux_$(uname -m)" \
  --wheel-dir "$folder/made" "$folder/package" >&2
mv "$folder"/made/spotps-*.whl "$out"
ls "$out"/spotps-*.whl

#!/usr/bin/env bash
# Builds the programs, and makes of them, in build/release:
#   spotps_*.deb             for the distribution that this machine has
#   spotps-*-linux-*.tar.gz  for other ones, too: scripts/tarball.sh
#   spotps-*.whl             the Python package
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v dpkg-shlibdeps > /dev/null ||
  die "dpkg-shlibdeps is missing; install the package dpkg-dev"
/usr/bin/python3 -c 'import setuptools, wheel, pip' 2> /dev/null ||
  die "pip, setuptools or wheel is missing; install the packages python3-pip and python3-wheel"
"$ROOT/scripts/setup.sh"
say "package: building release in build/release"
# For all architectures: scripts/test.sh leaves two of them in the cache of the same build.
configure release -DPS_TESTS=OFF -UPS_CUDA_ARCHITECTURES
build release psctl ps_agent ps_coordinator ps_server ps_worker spotps >&2
(cd "$ROOT/build/release" && cpack -G DEB) >&2
ls "$ROOT"/build/release/spotps_*.deb
"$ROOT/scripts/tarball.sh" "$ROOT/build/release" "$ROOT/build/release"
"$ROOT/scripts/wheel.sh" "$ROOT/build/release/bin" "$ROOT/build/release"

#!/usr/bin/env bash
# What scripts/setup.sh disables of that which it installed, with programs that stand for those of
# Ubuntu 24.04, where installing openssh-server enables ssh.socket.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
set --
# shellcheck source=scripts/setup.sh
source "$root/scripts/setup.sh"
disabled="$(mktemp)"
trap 'rm -f "$disabled"' EXIT

run_logged() { printf '%s\n' "$*" >> "$disabled"; }
systemctl() { :; }
dpkg-query() {
  printf 'installed %s\n' cmake systemd dbus-daemon openssh-server slurmd munge postgresql
  printf 'config-files slurmctld\n'
}
dpkg() {
  case "$2" in
    openssh-server) printf '/lib/systemd/system/ssh%s\n' .service .socket @.service .service.d ;;
    slurmd | munge | postgresql) printf '/usr/lib/systemd/system/%s.service\n' "$2" ;;
    systemd | dbus-daemon) printf '/lib/systemd/system/%s.socket\n' "$2" ;;
    cmake) printf '/usr/bin/cmake\n' ;;
  esac
}

# expect PACKAGES UNITS COMMANDS
expect() {
  : > "$disabled"
  disable_new_services "$1" "$2"
  [[ "$(sort "$disabled")" == "$3" ]] || {
    printf 'setup_services.sh: with %s there before, it ran\n' "${1//$'\n'/ }" >&2
    cat "$disabled" >&2
    exit 1
  }
}

expect $'cmake\npostgresql' "" "systemctl disable munge.service
systemctl disable slurmd.service
systemctl disable ssh.service
systemctl disable ssh.socket"
# Whoever had a package before keeps its services, and so does who had enabled one.
expect $'cmake\nopenssh-server\npostgresql' "" "systemctl disable munge.service
systemctl disable slurmd.service"
expect $'cmake\npostgresql' $'munge.service\nssh.socket' "systemctl disable slurmd.service
systemctl disable ssh.service"
expect "$(installed_packages)" "" ""
# A container without systemd.
command() { [[ "$*" != "-v systemctl" ]]; }
expect "" "" ""

# With a package, the demo's dataset and the .deb by its whole path, and no compiler.
touch "$disabled.deb"
trap 'rm -f "$disabled" "$disabled.deb"' EXIT
for word in "$disabled.deb" ""; do
  : > "$disabled"
  (
    set -- --package
    # shellcheck source=scripts/setup.sh
    source "$root/scripts/setup.sh"
    begin_installing() { :; }
    is_installed() { [[ -n $word && $1 == dataset-fashion-mnist ]]; }
    has_candidate() { :; }
    install() { printf '%s\n' "$*" >> "$disabled"; }
    install_package ${word:+"$word"}
  )
  wanted="--reinstall $(realpath "$disabled.deb")"
  [[ -n $word ]] || wanted="dataset-fashion-mnist"
  [[ "$(cat "$disabled")" == "$wanted" ]] || {
    echo "with --package $word it installs: $(cat "$disabled")"
    exit 1
  }
done

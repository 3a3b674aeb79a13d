#!/usr/bin/env bash
# Runs a command with all its processes on half a core together, as on a crowded machine, and ends
# as it does: scripts/half_core.sh COMMAND... Needs root and a cgroup (version 2 or 1) for the CPU.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

[[ $# -ge 1 ]] || die "usage: scripts/half_core.sh COMMAND..."
quota_us=50000
period_us=100000
name="spotps-half-core-$$"

# mount_of TYPE OPTIONS: the first mount of this type whose options match.
mount_of() {
  awk -v type="$1" -v options="$2" \
    '$3 == type && "," $4 "," ~ options { print $2; exit }' /proc/self/mounts
}

cannot() {
  die "half_core: $1; it takes root, on a machine or in a container that may limit its processes"
}

unified="$(mount_of cgroup2 ',')"
if [[ -n "$unified" ]] && grep -qw cpu "$unified/cgroup.controllers"; then
  # A group with processes has no limited groups below it, but for the topmost one.
  { echo +cpu > "$unified/cgroup.subtree_control"; } 2> /dev/null ||
    cannot "no group below $unified may limit the CPU"
  group="$unified/$name"
  mkdir "$group" || cannot "cannot make the group"
  limit() { echo "$quota_us $period_us" > "$group/cpu.max"; }
else
  parent="$(mount_of cgroup ',cpu,')"
  [[ -n "$parent" ]] || cannot "no cgroup for the CPU is mounted"
  own="$(awk -F: '("," $2 ",") ~ ",cpu," { print $3 }' /proc/self/cgroup)"
  group="$parent${own%/}/$name"
  mkdir "$group" || cannot "cannot make the group"
  limit() {
    echo "$period_us" > "$group/cpu.cfs_period_us" && echo "$quota_us" > "$group/cpu.cfs_quota_us"
  }
fi
trap 'rmdir "$group" 2> /dev/null || say "half_core: processes of the command go on in $group"' EXIT
limit || cannot "$group takes no limit"

status=0
(
  echo "$BASHPID" > "$group/cgroup.procs"
  exec "$@"
) || status=$?
exit "$status"

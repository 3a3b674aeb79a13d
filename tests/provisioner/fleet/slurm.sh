#!/usr/bin/env bash
# A Slurm cluster of three nodes on this machine, for the tests of the launcher slurm: two in the
# partition spot, which the partition ondemand may take back, and a large one in ondemand alone.
# usage: slurm.sh DIR. Prints "ready" and runs until its stdin ends. DIR/slurm.conf is for the
# clients (SLURM_CONF). Exit status 77: there can't be one, and the reason is on stdout.
# slurmd starts jobs as root alone: who is not root needs a sudo that asks for nothing.
set -euo pipefail

dir="$1"
export PATH="$PATH:/usr/sbin:/sbin"

skip() {
  echo "$*"
  exit 77
}

for program in slurmctld slurmd munged mungekey; do
  command -v "$program" > /dev/null || skip "there is no $program; install slurm-wlm and munge"
done
if [[ "$(id -u)" != 0 ]]; then
  sudo -n true 2> /dev/null || skip "slurmd starts jobs as root alone, and sudo -n does not work"
  exec sudo -n "$0" "$@"
fi

pids=()
# A slurmd waits for its steps, and these wait for a slurmctld that may be gone.
clear_away() {
  local pid
  for pid in $(pgrep -x slurmstepd); do
    if find "/proc/$pid/fd" -lname "$dir/*" 2> /dev/null | grep -q .; then
      kill -KILL "$pid" 2> /dev/null || true
    fi
  done
  kill -KILL "${pids[@]}" 2> /dev/null || true
  # The caller removes the folder.
  [[ -z "${SUDO_UID:-}" ]] || chown -R "$SUDO_UID" "$dir"
}
trap clear_away EXIT

# A key and a socket of its own, as root: the machine's munged, if there is one, is left alone.
chmod 755 "$dir"
mkdir -m 755 "$dir/munge" "$dir/state" "$dir/spool"
mungekey --create --keyfile="$dir/munge/key"
munged --force --foreground --key-file="$dir/munge/key" --socket="$dir/munge/socket" \
  --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" --log-file="$dir/munge/log" \
  > "$dir/munged.log" 2>&1 &
pids+=("$!")

host="$(hostname -s)"
base="$((10000 + RANDOM % 22000))"
cat > "$dir/slurm.conf" << END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CredType=cred/munge
SlurmctldPort=$base
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=2
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,preempt_youngest_first
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MinJobAge=300
PartitionName=spot Nodes=n[2-3] PriorityTier=1 PreemptMode=REQUEUE GraceTime=12 Default=YES
PartitionName=ondemand Nodes=ALL PriorityTier=10 PreemptMode=OFF
SlurmdParameters=config_overrides
END
node() {
  echo "NodeName=n$1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + $1)) CPUs=$2" \
    "RealMemory=100 Weight=$1" >> "$dir/slurm.conf"
}
node 1 4 # first, and for psctl, a server, and one that takes its place
node 2 1
node 3 1
export SLURM_CONF="$dir/slurm.conf"

for _ in {1..100}; do
  [[ -S "$dir/munge/socket" ]] && break
  sleep 0.05
done
slurmctld -D > "$dir/slurmctld.out" 2>&1 &
pids+=("$!")
for node in n1 n2 n3; do
  slurmd -D -N "$node" > "$dir/slurmd-$node.out" 2>&1 &
  pids+=("$!")
done

for _ in {1..300}; do
  idle="$(sinfo --noheader --states=idle --format=%D --partition=ondemand 2> /dev/null || true)"
  if [[ "$idle" == 3 ]]; then
    echo "ready"
    cat > /dev/null
    squeue --noheader --format=%A | sort -u | xargs --no-run-if-empty scancel --quiet || true
    for _ in {1..50}; do
      [[ -z "$(squeue --noheader)" ]] && break
      sleep 0.1
    done
    exit 0
  fi
  sleep 0.1
done
skip "Slurm does not come up here: $(cat "$dir/munged.log" "$dir/slurmctld.log" | tail -n 1)"

#!/usr/bin/env bash
# ssh_machines.sh BIN [FOLDER]: an elastic run on three machines that are network namespaces. psctl
# and the servers are on the first, workers over ssh on two others. The fleet grows from two to four
# workers and from one server to two, a worker is let go, then a machine vanishes; the run, which
# has no end of its own, is stopped with every sample that it counted counted once, and the workers
# of that machine end by themselves. Connections between machines are seen to be encrypted. Shows
# what it types, as docs/machines.md does. The run stays in FOLDER when one is named. Exit status 77
# and the reason where namespaces or sshd can't be had. BIN: the programs of a build.
set -euo pipefail

bin="$(realpath "$1")"
source_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
hosts="$source_root/tests/netns/hosts.sh"
patience_s=120

skip() {
  printf 'SKIP: %s\n' "$*"
  exit 77
}

why="$("$hosts" check)" || skip "$why"
[[ -d /usr/share/datasets/fashion-mnist ]] ||
  skip "/usr/share/datasets/fashion-mnist is missing: install the package dataset-fashion-mnist"

prefix="spotps-ssh-$$"
scratch="$(mktemp -d)"
folder="${2:-$scratch}"
mkdir -p "$folder"

finish() {
  local host pids
  for host in coordinator worker0 worker1; do
    pids="$(ip netns pids "$prefix-$host" 2> /dev/null)" || continue
    # shellcheck disable=SC2086  # one word each
    [[ -z $pids ]] || kill $pids 2> /dev/null || true
  done
  "$hosts" down "$prefix"
  rm -rf "$scratch"
}
trap finish EXIT

fail() {
  echo "ssh_machines.sh: $*" >&2
  tail -n 20 "$scratch/train.out" "$scratch"/*/log >&2 2> /dev/null || true
  exit 1
}

# wait_for WHAT COMMAND...: until the command succeeds.
wait_for() {
  local what="$1" deadline=$((SECONDS + patience_s))
  shift
  until "$@" > /dev/null 2>&1; do
    [[ $SECONDS -lt $deadline ]] || fail "$what did not come in $patience_s s"
    kill -0 "$run" 2> /dev/null || fail "the run ended before $what"
    sleep 0.1
  done
}

"$hosts" up "$prefix" 0 2
for i in 0 1; do
  mkdir "$scratch/machine$i"
  mkfifo "$scratch/machine$i/open"
  ip netns exec "$prefix-worker$i" "$source_root/tests/provisioner/fleet/sshd.sh" \
    "$scratch/machine$i" "10.88.2.$i" < "$scratch/machine$i/open" > "$scratch/machine$i/log" 2>&1 &
  sshd=$!
  exec {keep_open}> "$scratch/machine$i/open" # sshd.sh ends with its stdin
  until grep -q ready "$scratch/machine$i/log"; do
    if ! kill -0 "$sshd" 2> /dev/null; then
      status=0
      wait "$sshd" || status=$?
      [[ $status != 77 ]] || skip "$(cat "$scratch/machine$i/log")"
      fail "$(cat "$scratch/machine$i/log")"
    fi
    sleep 0.05
  done
done
cat "$scratch"/machine?/ssh_config > "$scratch/ssh_config"
mapfile -t ssh_ports < <(awk '/ Port / {print $2}' "$scratch/ssh_config")

# Until its input ends, which is this shell's descriptor.
mkfifo "$scratch/watched"
ip netns exec "$prefix-switch" python3 "$source_root/tests/netns/watch_tls.py" "${ssh_ports[@]}" \
  < "$scratch/watched" > "$scratch/tls.out" 2>&1 &
watch=$!
exec {keep_watching}> "$scratch/watched"
until grep -q ready "$scratch/tls.out"; do
  kill -0 "$watch" 2> /dev/null || fail "$(cat "$scratch/tls.out")"
  sleep 0.05
done

# here COMMAND...: on the first machine.
here() {
  (cd "$folder" && exec ip netns exec "$prefix-coordinator" env PATH="$bin:$PATH" "$@")
}

show() {
  echo "$ $*"
  here "$@"
}

launch='{"launcher": "ssh", "ssh_config": "'"$scratch/ssh_config"'", "hosts": '
launch+='[{"host": "10.88.2.0", "slots": 2}, {"host": "10.88.2.1", "slots": 4}]}'
train=(psctl train "$source_root/configs/fashion_mnist_cnn.json" --set "launch=$launch"
  --set run.listen=10.88.0.1 --set name=elastic --set 'faults=[]' --set servers.count=1
  --set 'workers=[{"count": 2, "minibatch": 64, "step_ms": 50}]' --set train.epochs=100000
  --set fleet.orphan_grace_s=1)
echo "$ ${train[*]}"
here "${train[@]}" > "$scratch/train.out" 2>&1 &
run=$!

is_training() { here psctl status elastic --json | grep -q '"state": *"training"'; }
has_left() { here psctl events elastic | grep -q "leave .*worker $1 left"; }
is_lost() { here psctl events elastic | grep -q 'revocation .*lost'; }
is_replaced() { here psctl events elastic | sed '1,/revocation .*lost/d' | grep -q ' join '; }

wait_for "training" is_training
show psctl scale elastic workers=4 --wait
show psctl scale elastic servers=2 --wait
show psctl drain 3 elastic
wait_for "the worker's end" has_left 3
show psctl top elastic
echo "(the machine 10.88.2.0 vanishes)"
ip -n "$prefix-switch" link set worker0 down
wait_for "the loss of its workers" is_lost
wait_for "a worker on the other machine" is_replaced
show psctl stop elastic
wait "$run" || fail "the run failed"
deadline=$((SECONDS + patience_s))
while ip netns pids "$prefix-worker0" | xargs -r ps -o comm= -p | grep -q ps_worker; do
  [[ $SECONDS -lt $deadline ]] || fail "workers of the machine that vanished live on"
  sleep 0.2
done
root="$(echo "$folder"/runs/elastic-*)"
show psctl events "$root" | grep -v checkpoint
tail -n 24 "$scratch/train.out"
exec {keep_watching}>&-
wait "$watch" || fail "$(cat "$scratch/tls.out")"
tail -n 1 "$scratch/tls.out"
python3 - "$root/summary.json" << 'END' || fail "the ledger is not exact"
import json
import sys

run = json.load(open(sys.argv[1]))
counted = run["samples_counted"]
assert run["state"] == "stopped", run["state"]
assert sum(row["samples_counted"] for row in run["workers"]) == counted, counted
assert sum(epoch["samples_counted"] for epoch in run["ledger"]) == counted, counted
assert all(epoch["samples_counted"] <= epoch["samples_total"] for epoch in run["ledger"])
assert all(epoch["samples_leased"] == 0 for epoch in run["ledger"])
END

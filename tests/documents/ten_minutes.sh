#!/usr/bin/env bash
# ten_minutes.sh BUILD: types the blocks of docs/ten-minutes.md that are marked as bash, as a reader
# would, on a bare Debian: a root with the packages that every Debian has, ssh, and the tarball of
# the programs of BUILD, in a folder with spaces in its name. The page's three machines are an sshd
# each with home directory, processes and address of its own. Looks at what is left: libraries that
# come from the tarball alone, every sample counted once although a worker was killed, a model that
# learnt, and in PyTorch, where a python3 has it (SPOTPS_TORCH_PYTHON), the probabilities of psctl.
# Exit status 77 and the reason where such machines can't be had.
set -euo pipefail

build="$(realpath "$1")"
source_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
page="$source_root/docs/ten-minutes.md"
# shellcheck source=tests/package/root.sh
source "$source_root/tests/package/root.sh"

[[ $EUID -eq 0 ]] || skip "a root of its own needs root"
for tool in ip:iproute2 sshd:openssh-server ssh-keygen:openssh-client objdump:binutils; do
  PATH="$PATH:/usr/sbin" command -v "${tool%:*}" > /dev/null ||
    skip "there is no program ${tool%:*}; install the package ${tool#*:}"
done
# What is mounted, started and addressed in here goes with this process.
own=(unshare --net --mount-proc --pid --fork --kill-child)
if [[ -z ${SPOTPS_OWN_NAMESPACES:-} ]]; then
  "${own[@]}" true 2> /dev/null || skip "this machine does not let root make namespaces"
  SPOTPS_OWN_NAMESPACES=1 exec "${own[@]}" "$0" "$@"
fi

folder="$(mktemp -d)"
root="$folder/root"
work="$root/root/my work (1)"
finish() {
  umount "$root/proc" 2> /dev/null || true
  rm -rf "$folder"
}
trap finish EXIT

fail() {
  echo "ten_minutes.sh: $*"
  tail -n 5 "$folder"/machine*.log 2> /dev/null || true
  exit 1
}

# Prints the blocks of the page that are marked as $1.
blocks() {
  awk -v mark="\`\`\`$1" '$0 == mark { on = 1; next } /^```/ { on = 0 } on' "$page"
}

# start_machine NUMBER: at 10.0.0.NUMBER, with an empty home directory that takes our key.
start_machine() {
  local name="machine$1"
  mkdir -p "$folder/$name/.ssh"
  cp "$root/root/.ssh/id_ed25519.pub" "$folder/$name/.ssh/authorized_keys"
  printf '%s\n' "ListenAddress 10.0.0.$1" "HostKey /etc/ssh/host" "PidFile none" "UsePAM no" \
    "StrictModes no" > "$root/etc/ssh/$name"
  # shellcheck disable=SC2016  # the inner shell's words
  unshare --mount --pid --fork --kill-child sh -ec 'mount --bind "$1" "$2/root"
    mount -t proc proc "$2/proc"
    exec chroot "$2" /usr/sbin/sshd -D -e -f "/etc/ssh/$3"' sh "$folder/$name" "$root" "$name" \
    2> "$folder/$name.log" &
  until grep -qs "Server listening" "$folder/$name.log"; do
    kill -0 $! 2> /dev/null || fail "no sshd on $name"
    sleep 0.02
  done
  printf '10.0.0.%s %s\n' "$1" "$(cut -d' ' -f1,2 "$root/etc/ssh/host.pub")" \
    >> "$root/root/.ssh/known_hosts"
}

make_machines() {
  local required number
  # shellcheck disable=SC2016  # the format is dpkg-query's
  required="$(dpkg-query -W -f '${Package} ${Essential} ${Priority}\n' |
    awk '$2 == "yes" || $3 == "required" { printf "%s, ", $1 }')"
  fill_root "$root" "$required apt, mawk, openssh-client, openssh-server"
  ln -sf mawk "$root/usr/bin/awk" # as Debian's alternatives do
  printf 'root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n' \
    > "$root/etc/passwd"
  mkdir -p "$root/run/sshd" "$root/root/.ssh" "$root/etc/ssh" "$work"
  rm -f "$root"/etc/ssh/*
  ssh-keygen -q -t ed25519 -N "" -f "$root/etc/ssh/host"
  ssh-keygen -q -t ed25519 -N "" -f "$root/root/.ssh/id_ed25519"
  ip link set lo up
  ip link add eth0 type veth peer name eth1 2> /dev/null || skip "this kernel has no veth pairs"
  ip link set eth1 up
  ip link set eth0 up
  for number in 1 2 3 4; do
    ip address add "10.0.0.$number/24" dev eth0
  done
  for number in 2 3 4; do
    start_machine "$number"
  done
  mount -t proc proc "$root/proc"
}

# inside COMMAND...: on the first machine, in the folder of the reader.
inside() {
  # shellcheck disable=SC2016
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" bash -c \
    'cd "/root/my work (1)" && exec "$@"' bash "$@"
}

tarball="$("$source_root/scripts/tarball.sh" "$build" "$folder")"
make_machines
cp "$tarball" "$work/"
blocks bash > "$work/typed.sh"
[[ $(grep -c '^psctl' "$work/typed.sh") -ge 10 ]] || fail "$page has hardly any commands"
inside bash -euxo pipefail typed.sh || fail "a command of the page failed"

grep -qF '"run": {"listen": "10.0.0.1"}' "$work/machines.txt" ||
  fail "prepare_host.sh took another address: $(cat "$work/machines.txt")"

# Libraries of the tarball, but for those that every system has.
# shellcheck disable=SC2016
strange="$(inside bash -c 'for file in spotps/bin/* spotps/lib/libspotps.so; do
    [ ! -e "$file" ] || ldd "$file"
  done' | grep -Ev ' => /root/my work \(1\)/spotps/|linux-vdso|/ld-linux' |
  grep -Ev '^\s*lib(c|m|dl|rt|pthread|resolv|util|anl|stdc\+\+|gcc_s)\.so' || true)"
[[ -z $strange ]] || fail "libraries that are not the tarball's: $strange"
for number in 2 3 4; do
  cmp "$folder/machine$number/spirals/train.csv" "$work/spirals/train.csv" ||
    fail "machine $number has other data"
  ls "$folder/machine$number"/.cache/spotps/*/ps_worker > /dev/null ||
    fail "machine $number had no worker"
done

cd "$work"
python3 - runs/spirals-*/ << 'END' || fail "the runs are not as they should be"
import json
import sys

here, elsewhere = (json.load(open(folder + "summary.json")) for folder in sorted(sys.argv[1:]))
assert here["state"] == "done", here["state"]
assert here["samples_counted"] == 40_000, here["samples_counted"]
assert elsewhere["state"] == "stopped", elsewhere["state"]
counted, ledger = elsewhere["samples_counted"], elsewhere["ledger"]
assert sum(row["samples_counted"] for row in elsewhere["workers"]) == counted, counted
assert sum(epoch["samples_counted"] for epoch in ledger) == counted, counted
assert all(epoch["samples_counted"] <= epoch["samples_total"] for epoch in ledger), ledger
assert all(epoch["samples_leased"] == 0 for epoch in ledger), ledger
assert elsewhere["revocations_unnoticed"] >= 1, elsewhere
assert here["test_accuracy"] > 0.9, here["test_accuracy"]
assert elsewhere["test_accuracy"] > 0.7, elsewhere["test_accuracy"]  # stopped in an early epoch
END

# Who has the sources, too: no compiler, and the tarball's programs.
if [[ -d /usr/share/datasets/fashion-mnist ]]; then
  mkdir "$folder/clone"
  cp -r "$source_root"/{scripts,configs} "$folder/clone/"
  "$folder/clone/scripts/quickstart.sh" --package "$tarball" --set "run.directory=$folder/quick" \
    'faults=[]' train.epochs=1 data.train_samples=2000 data.test_samples=500 --json \
    > "$folder/quick.json"
  grep -Eq '"state": *"done"' "$folder/quick.json" || fail "quickstart.sh trained nothing"
  [[ -x $folder/clone/build/package/bin/psctl && ! -e $folder/clone/build/release ]] ||
    fail "quickstart.sh did not take the tarball"
fi

blocks python > "$work/use.py"
torch="${SPOTPS_TORCH_PYTHON:-python3}"
if "$torch" -c 'import torch' 2> /dev/null; then
  "$torch" - << 'END' || fail "PyTorch says something else than psctl"
import csv

exec(open("use.py").read())
probabilities = network(spirals.prepare([[0.1, 0.0], [-0.3, 0.5]])).softmax(dim=1).tolist()
rows = [[float(row["p_" + name]) for name in spirals.CLASSES]
        for row in csv.DictReader(open("predictions.csv"))]
assert len(rows) == 2, rows
for row, of_pytorch in zip(rows, probabilities):
    assert max(abs(a - b) for a, b in zip(row, of_pytorch)) < 1e-5, (row, of_pytorch)
END
else
  echo "without PyTorch: $torch has none, and SPOTPS_TORCH_PYTHON names no python3 that has"
fi

#!/usr/bin/env bash
# prepare_host.sh: what scripts/prepare_host.sh leaves on a machine, and what it says when that
# can't be: an sshd of this test's own on the loopback, and a package whose programs are scripts
# that look for their library as ours do. tests/documents/ten_minutes.sh has real programs. Exit
# status 77 and the reason without sshd.
set -euo pipefail

source_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
folder="$(mktemp -d)"
mounted=""
finish() {
  [[ -z $mounted ]] || umount "$mounted"
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"

fail() {
  echo "prepare_host.sh: $*"
  echo "it said:"
  cat "$folder/errors"
  exit 1
}

home="$folder/home" # where the sshd lets in
mkdir "$home"
mkfifo open
"$source_root/tests/provisioner/fleet/sshd.sh" "$home" < open > sshd.out 2>&1 &
sshd=$!
exec 9> open # sshd.sh ends with its stdin
until grep -q ready sshd.out; do
  if ! kill -0 "$sshd" 2> /dev/null; then
    status=0
    wait "$sshd" || status=$?
    [[ $status != 77 ]] || echo "SKIP: $(cat sshd.out)"
    exit "$status"
  fi
  sleep 0.05
done

# make_package TEXT [PLATFORM_LINE...]: package.tar.gz, whose psctl prints TEXT as its version.
make_package() {
  local text="$1" top="spotps-0.1.0-linux-test" program
  shift
  rm -rf "$top"
  mkdir -p "$top"/{bin,lib,share,runs}
  for program in psctl ps_worker; do
    # shellcheck disable=SC2016  # the program's own words
    printf '#!/bin/sh\ncat "$(dirname "$0")/../lib/said"\n' > "$top/bin/$program"
    chmod +x "$top/bin/$program"
  done
  echo "$text" > "$top/lib/said"
  echo "$text" > "$top/share/only-$text"
  printf '%s\n' version=0.1.0 "architecture=$(uname -m)" glibc=2.17 glibcxx=3.4.30 "$@" |
    tac | sort -t= -k1,1 -u > "$top/PLATFORM" # the last one of a name counts
  tar -czf package.tar.gz "$top/PLATFORM" --exclude="$top/PLATFORM" "$top"
}

prepare() {
  "$source_root/scripts/prepare_host.sh" --ssh-config "${config:-$home/ssh_config}" "$@" \
    > out 2> errors
}

# refuses TEXT ARGUMENT...: it fails, says so, and promises nothing.
refuses() {
  local text="$1"
  shift
  if prepare "$@"; then fail "$* was taken"; fi
  grep -qF -- "$text" errors || fail "$* does not say: $text"
  [[ ! -s out ]] || fail "$* printed: $(cat out)"
}

said() { grep -q -- "$1" errors || fail "it does not say: $1"; }

mkdir -p "my data/deeper"
seq 1000 > "my data/train.csv"
seq 10 > "my data/deeper/test.csv"

# A machine that has nothing.
make_package first
prepare localhost 127.0.0.1 --package package.tar.gz --data "my data" --key "$home/user" ||
  fail "it failed"
[[ "$("$home/spotps/bin/psctl")" == first ]] || fail "there is no program"
diff -r "my data" "$home/my data" || fail "the data differ"
[[ "$(grep -c . "$home/.ssh/authorized_keys")" == 1 ]] || fail "the key is there twice, or not"
cmp "$home/user.pub" "$home/.ssh/authorized_keys" || fail "another key"
said "^localhost: first runs$"
said "^127.0.0.1: .*/spotps has this package already$"
said "^127.0.0.1: .*/my data has this data already$"
[[ "$(readlink "$home/cache/spotps/lib")" == "$home/spotps/lib" ]] || fail "no libraries for copies"
[[ "$(ls "$home/cache/spotps")" == lib ]] || fail "a copy is left: $(ls "$home/cache/spotps")"
python3 - "$home/ssh_config" "$(nproc)" << 'END' || fail "no lines for a job: $(cat out)"
import json
import sys

config, processors = sys.argv[1], int(sys.argv[2])
job = json.loads("{" + open("out").read().strip().removesuffix(",") + "}")
hosts = [{"host": name, "slots": processors} for name in ("localhost", "127.0.0.1")]
assert job == {
    "launch": {"launcher": "ssh", "ssh_config": config, "hosts": hosts},
    "run": {"listen": "127.0.0.1"}}, job
END

# What changed is put there, the package as a whole; by tar where there is no rsync.
mkdir without
ln -s /usr/bin/* /bin/* without/ 2> /dev/null || true
rm -f without/rsync
seq 1001 > "my data/train.csv"
make_package second
PATH="$folder/without" prepare localhost --package package.tar.gz --data "my data" ||
  fail "it failed"
diff -r "my data" "$home/my data" || fail "the data differ"
[[ -e $home/spotps/share/only-second && ! -e $home/spotps/share/only-first ]] ||
  fail "it has: $(ls "$home/spotps/share")"
[[ -z "$(find "$home" -maxdepth 1 -name 'spotps.*')" ]] || fail "left: $(ls "$home")"

# An unpacked one, elsewhere, and data that are named by a whole path.
mkdir -p "$folder/shared"
prepare localhost --package spotps-0.1.0-linux-test --directory "$folder/shared/my programs" \
  --data "$folder/my data" || fail "it failed"
[[ -e "$folder/shared/my programs/share/only-second" ]] || fail "not in --directory"
[[ ! -e "$folder/shared/my programs/runs" ]] || fail "what is no part of the package came along"
said "/my data has this data already$"

# What is no package, or not one for that machine, leaves what is there.
make_package third architecture=sparc64
refuses "the package is for sparc64" localhost --package package.tar.gz
make_package third glibc=9.99
refuses "the package needs 9.99 or newer" localhost --package package.tar.gz
make_package third
head -c 300 package.tar.gz > half.tar.gz
refuses "half.tar.gz" localhost --package half.tar.gz
refuses "there is no file none.tar.gz" localhost --package none.tar.gz
refuses "is there, and is no package of spotps" localhost --package package.tar.gz \
  --directory "$folder/my data"
rm spotps-0.1.0-linux-test/lib/said
tar -czf broken.tar.gz spotps-0.1.0-linux-test/PLATFORM spotps-0.1.0-linux-test
refuses "do not run there" localhost --package broken.tar.gz --directory "$folder/shared/broken"
[[ "$("$home/spotps/bin/psctl")" == second ]] || fail "the package is another one"
make_package third

# The other taker of packages. It looks before it installs or unpacks anything.
for package in half.tar.gz none.tar.gz package.tar.gz; do
  [[ $package != package.tar.gz ]] || make_package fourth architecture=sparc64
  if "$source_root/scripts/quickstart.sh" --package "$package" 2> errors; then fail "taken"; fi
  grep -q "^spotps: .*$package" errors || fail "quickstart.sh does not say what is wrong"
done
make_package third

# Arguments.
refuses "usage: " --package package.tar.gz
refuses "usage: " localhost --unknown
refuses "usage: " localhost --package
refuses "usage: " localhost "-oProxyCommand=touch $folder/seen"
refuses "is no host; allowed: " "localhost;touch" --package package.tar.gz
refuses "there is no folder none" localhost --package package.tar.gz --data none
refuses "there is no file none (--key)" localhost --package package.tar.gz --key none
cp "$home/user" private
refuses "private is no public key" localhost --package package.tar.gz --key private

# Hosts that don't let in.
sed 's/Port .*/Port 1/' "$home/ssh_config" > closed
config=closed refuses "it has no ssh at this port" localhost --package package.tar.gz
ssh-keygen -q -t ed25519 -N "" -f stranger
sed "s,IdentityFile .*,IdentityFile $folder/stranger," "$home/ssh_config" > wrong_key
config=wrong_key refuses "it takes no key of yours" localhost --package package.tar.gz
sed "s/ ssh-ed25519 .*/ $(cut -d' ' -f1,2 stranger.pub | sed 's,/,\\/,g')/" "$home/known_hosts" \
  > known_hosts
sed "s,UserKnownHostsFile .*,UserKnownHostsFile $folder/known_hosts," "$home/ssh_config" > imposter
config=imposter refuses "it shows another key" localhost --package package.tar.gz
config=/dev/null refuses "nobody knows this name" nobody.invalid --package package.tar.gz
[[ "$("$home/spotps/bin/psctl")" == second ]] || fail "the package is another one"

# A disk that is full. Only root can make one.
mkdir small
if [[ $EUID == 0 ]] && mount -t tmpfs -o size=512k tmpfs small 2> /dev/null; then
  mounted="$folder/small"
  refuses "no space: the package needs" localhost --package package.tar.gz \
    --directory "$folder/small/spotps"
fi

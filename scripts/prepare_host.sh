#!/usr/bin/env bash
# prepare_host.sh [user@]HOST... [--package FILE] [--data FOLDER] [--key FILE]
#                 [--directory FOLDER] [--ssh-config FILE]
#
# Makes machines ready for workers and servers over ssh: puts the programs, the data and a key there
# and says what a job has to name. What is there already is left alone. Nothing is compiled, and
# with a tarball nobody has to be root.
#   HOST          as ssh knows it; options (port, key, jump host) belong in ~/.ssh/config
#   --package     a tarball, or a .deb where root or sudo is to be had without a question; default:
#                 the unpacked tarball that this script is in, else the tarball in build/release
#   --data        as data.directory of the job names it, and put under this name: below the home
#                 directory there if it does not begin with /
#   --key         a public key that may log in there from now on, e.g. ~/.ssh/id_ed25519.pub
#   --directory   where the programs are put there; default: ~/spotps
#   --ssh-config  for ssh in place of the user's own configuration, as launch.ssh_config
#
# What belongs into the job is on stdout, all else on stderr.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  say "usage: scripts/prepare_host.sh [user@]HOST... [--package FILE] [--data FOLDER] [--key FILE]"
  say "                               [--directory FOLDER] [--ssh-config FILE]"
  exit 2
}

hosts=() package="" data="" key="" directory="" config=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --package | --data | --key | --directory | --ssh-config)
      [[ -n "${2:-}" ]] || usage
      case "$1" in
        --package) package="$2" ;;
        --data) data="${2%/}" ;;
        --key) key="$2" ;;
        --directory) directory="${2%/}" ;;
        --ssh-config) config="$2" ;;
      esac
      shift
      ;;
    -*) usage ;;
    *)
      # As in the job: what begins with a "-" would be an option of ssh.
      [[ $1 =~ ^[A-Za-z0-9_:][A-Za-z0-9_@.:%-]{0,252}$ ]] ||
        die "\"$1\" is no host; allowed: a name, an address, user@name, an alias of ~/.ssh/config"
      hosts+=("$1")
      ;;
  esac
  shift
done
[[ ${#hosts[@]} -gt 0 ]] || usage
command -v ssh > /dev/null || die "there is no ssh here; try: apt-get install openssh-client"

# A short path: the sockets of ssh's connections are in it.
scratch="$(mktemp -d /tmp/spotps.XXXXXX)"
close_connections() {
  local host
  for host in "${hosts[@]}"; do
    ssh "${ssh_options[@]}" -O exit "$host" > /dev/null 2>&1 || true
  done
  rm -rf "$scratch"
}
ssh_options=(-T -x -a -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=4
  -o LogLevel=ERROR)
if [[ -n $config ]]; then
  [[ -r $config ]] || die "there is no file $config (--ssh-config)"
  config="$(realpath "$config")"
  [[ $config != *[\"\\]* ]] || die "$config has a \" or \\ in its name (--ssh-config); rename it"
  ssh_options+=(-F "$config")
fi
ssh_options+=(-o "ControlPath=$scratch/%C")
trap close_connections EXIT

# --- what is put there -----------------------------------------------------------------------

# Sets package, platform and package_kib, and package_sum: another content, another sum.
choose_package() {
  if [[ -z $package && -e $ROOT/PLATFORM ]]; then
    package="$ROOT"
  elif [[ -z $package ]]; then
    package="$(find "$ROOT/build/release" -maxdepth 1 -name "spotps-*-linux-*.tar.gz" \
      -printf '%T@ %p\n' 2> /dev/null | sort -n | sed -n '$s/^[^ ]* //p')"
    [[ -n $package ]] ||
      die "there is no package in build/release: make it by scripts/package.sh, or name one by" \
        "--package FILE"
  fi
  [[ -r $package ]] || die "there is no file $package (--package)"
  platform=""
  if [[ -d $package ]]; then
    platform="$(cat "$package/PLATFORM" 2> /dev/null)" ||
      die "$package is no unpacked tarball of spotps; allowed: that, or a spotps-*.tar.gz"
    mapfile -t package_parts < <(cd "$package" && ls -d README PLATFORM bin include lib python \
      scripts share 2> /dev/null)
    package_kib="$(cd "$package" && du -skc "${package_parts[@]}" | sed -n '$s/[^0-9].*//p')"
    package_stream > "$scratch/package.tar.gz"
    package="$scratch/package.tar.gz"
  elif [[ $package == *.deb ]]; then
    package_kib="$(du -k "$package" | cut -f1)"
  else
    platform="$(tarball_platform "$package")"
    package_kib="$(($(gzip --list "$package" | awk 'END { print $2 }') / 1024))"
  fi
  package_sum="$(sha256sum < "$package" | cut -d' ' -f1)"
}

# The unpacked tarball as one again, the same for the same content; not what else is in its folder.
package_stream() {
  tar --create --directory="$package" --sort=name --owner=0 --group=0 --numeric-owner \
    --transform='flags=r;s,^,spotps/,' "${package_parts[@]}" | gzip -n -1
}

# Sets key_line.
choose_key() {
  local file="$key"
  [[ $file == *.pub || ! -e $file.pub ]] || file="$file.pub"
  [[ -r $file ]] || die "there is no file $key (--key); try: ssh-keygen -t ed25519"
  IFS= read -r -n 16384 key_line < "$file" || true # its end may be missing
  [[ $key_line =~ ^(ssh-|ecdsa-|sk-)[a-z0-9@.-]+\ [A-Za-z0-9+/=]+(\ .*)?$ ]] ||
    die "$file is no public key (--key); allowed: a file as ~/.ssh/id_ed25519.pub"
}

# --- a machine ---------------------------------------------------------------------------------

host="" # the one in hand
on_host="$(cat "$ROOT/scripts/on_host.sh")"
fail() { die "$host: $*"; }

quoted() {
  local word
  for word in "$@"; do
    printf " '%s'" "${word//\'/\'\\\'\'}"
  done
}

# there WORD ARGUMENT...: a word of scripts/on_host.sh, there. The login shell may be of any kind.
there() { ssh "${ssh_options[@]}" -- "$host" "exec /bin/sh -c$(quoted "$on_host" spotps "$@")"; }

# One connection that all that follows uses, so that a password is asked once.
connect() {
  ssh "${ssh_options[@]}" -o ControlMaster=yes -N -f -- "$host" 2> "$scratch/errors" && return
  local errors
  errors="$(tail -n 3 "$scratch/errors" | tr '\n' ' ')"
  case "$errors" in
    *"ould not resolve"*) fail "nobody knows this name. Is it spelt right, or an alias that is" \
      "missing in ~/.ssh/config? ($errors)" ;;
    *"timed out"* | *"o route to host"* | *"unreachable"*) fail "it does not answer. Is it up," \
      "and does its firewall let ssh in from here? ($errors)" ;;
    *"refused"*) fail "it has no ssh at this port. Install openssh-server there, or name its port" \
      "in ~/.ssh/config ($errors)" ;;
    *"ermission denied"*) fail "it takes no key of yours. Name the one that it knows as" \
      "IdentityFile in ~/.ssh/config, or try: ssh-copy-id $host ($errors)" ;;
    *"ost key verification failed"*) fail "it shows another key than the one that is known, or" \
      "one that nobody has confirmed. Try: ssh $host. If it is a new machine at an old address:" \
      "ssh-keygen -R ${host#*@} ($errors)" ;;
    *) fail "no connection; try: ssh $host true ($errors)" ;;
  esac
}

# ask WORD ARGUMENT...: prints the answers of a word. A login shell may greet: only our lines count.
ask() {
  there "$@" < /dev/null > "$scratch/answer" ||
    fail "the connection was lost, or a command failed there; the reason is above. Try it again"
  sed -n 's/^spotps //p' "$scratch/answer"
}

# fact NAME: what the host has said of itself.
fact() { sed -n "s/^$1 //p" "$scratch/facts"; }

put_key() {
  if [[ "$(ask add_key "$key_line")" == added ]]; then
    say "$host: the key may log in now"
  fi
}

# psctl connects again and again, and nobody is there to answer.
check_login() {
  ssh "${ssh_options[@]}" -o ControlPath=none -o BatchMode=yes -- "$host" true \
    < /dev/null > /dev/null 2> "$scratch/errors" ||
    fail "ssh gets in with a question alone, and psctl can't answer it. Give --key FILE with the" \
      "public half of a key without a passphrase, or one of your ssh-agent" \
      "($(tail -n 1 "$scratch/errors"))"
}

# check_space FOLDER KIB WHAT
check_space() {
  local free
  free="$(ask free "$1" | sed -n 's/^free //p')"
  [[ -z $free || $free -ge $(($2 + 1024)) ]] ||
    fail "no space: $3 needs $(($2 / 1024 + 1)) MiB in $1, where $((free / 1024)) MiB are free." \
      "Name another disk by --directory, or for data by data.directory of the job and --data"
}

put_tarball() {
  local problem state
  problem="$(platform_problem "$platform" "$(fact machine)" "$(fact glibc)")"
  [[ -z $problem ]] || fail "$problem"
  state="$(ask state "$place")"
  case "$state" in
    "has $package_sum")
      say "$host: $place has this package already"
      return
      ;;
    foreign) fail "$place is there, and is no package of spotps; choose another --directory" ;;
  esac
  check_space "$place" "$package_kib" "the package"
  say "$host: copying the package ($(du -h "$package" | cut -f1)) to $place"
  there unpack "$place" "$package_sum" < "$package" ||
    fail "unpacking in $place failed; what was there is as it was. The reason is above"
}

put_deb() {
  place=/usr
  if [[ "$(ask deb_state)" == "has $package_sum" ]]; then
    say "$host: this package is installed already"
    return
  fi
  say "$host: installing the package ($(du -h "$package" | cut -f1))"
  there install_deb "$package_sum" < "$package" > /dev/null 2> "$scratch/errors" || {
    tail -n 20 "$scratch/errors" >&2
    fail "the package could not be installed, see above. It is for the distribution that made it," \
      "and needs root, or sudo without a password; a tarball needs neither"
  }
}

try_programs() {
  local version
  version="$(there try "$place" < /dev/null 2> "$scratch/errors" |
    sed -n 's/^spotps runs //p')" || true
  [[ -n $version ]] ||
    fail "the programs in $place do not run there: $(tail -n 1 "$scratch/errors")." \
      "They are for Debian 12, Ubuntu 22.04 and newer"
  say "$host: $version runs"
}

put_data() {
  local target="$data" sum
  [[ $target == /* ]] || target="$(fact home)/$target"
  sum="$(ask data_sum "$target" | sed -n 's/^data //p')"
  if [[ $sum == "$data_sum" ]]; then
    say "$host: $target has this data already"
    return
  fi
  check_space "$target" "$data_kib" "the data"
  there make_folder "$target" < /dev/null 2> /dev/null ||
    fail "cannot write $target there, as data.directory names it; name a folder that can be made" \
      "on all machines, or one without a / in front, which is below the home directory"
  say "$host: copying the data ($((data_kib / 1024 + 1)) MiB) to $target"
  # rsync goes on where an earlier copy ended.
  if [[ $host != *:*:* ]] && command -v rsync > /dev/null && there has_rsync < /dev/null; then
    rsync --archive --no-owner --no-group --copy-links --protect-args \
      --rsh="ssh$(quoted "${ssh_options[@]}")" "$data/" "$host:$target/"
  else
    tar --create --dereference --directory="$data" . | there put_data "$target"
  fi || fail "copying the data failed; the reason is above"
  sum="$(ask data_sum "$target" | sed -n 's/^data //p')"
  [[ $sum == "$data_sum" ]] ||
    say "$host: $target has other files beside those of $data, or did while they were copied"
}

# All of it on one host, which then has an entry for launch.hosts.
prepare() {
  connect
  ask facts > "$scratch/facts"
  [[ -z $key ]] || put_key
  check_login
  # The ~ of the command line is the one here.
  place="${directory:-spotps}"
  [[ $place != "${HOME:-/}"/* ]] || place="${place#"$HOME"/}"
  [[ $place == /* ]] || place="$(fact home)/$place"
  if [[ $package == *.deb ]]; then put_deb; else put_tarball; fi
  try_programs
  [[ -z $data ]] || put_data
  fact peer >> "$scratch/peers"
  printf '{"host": "%s", "slots": %d}\n' "$host" "$(fact processors)" >> "$scratch/entries"
}

# Prints the address of this machine at which the hosts can reach it, or all of them.
listen_address() {
  local peer
  peer="$(sort -u "$scratch/peers")"
  if grep -qwF -- "$peer" <(hostname -I 2> /dev/null; echo 127.0.0.1) &&
    [[ "$(wc -l <<< "$peer")" == 1 ]]; then
    printf '%s\n' "$peer"
  else
    printf '0.0.0.0\n'
  fi
}

choose_package
[[ -z $key ]] || choose_key
if [[ -n $data ]]; then
  [[ -d $data ]] || die "there is no folder $data here (--data)"
  data_sum="$(sh -c "$on_host" spotps data_sum "$data" | sed -n 's/^spotps data //p')"
  data_kib="$(du -skL "$data" | cut -f1)"
fi
: > "$scratch/entries"
: > "$scratch/peers"
for host in "${hosts[@]}"; do
  prepare
done
say "ready. These lines belong into the job:"
printf '  "launch": {"launcher": "ssh", %s"hosts": [%s]},\n' \
  "${config:+\"ssh_config\": \"$config\", }" "$(paste -sd, "$scratch/entries" | sed 's/,{/, {/g')"
printf '  "run": {"listen": "%s"},\n' "$(listen_address)"

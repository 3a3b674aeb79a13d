#!/bin/sh
# What scripts/prepare_host.sh does on the machine that it prepares: it sends this file through the
# connection as the text of `sh -c`, with one of the words at its end. Answers are lines "spotps
# ..." on stdout, since a login shell may greet there.
set -eu
cache="${XDG_CACHE_HOME:-$HOME/.cache}/spotps"

facts() {
  echo "spotps machine $(uname -m)"
  echo "spotps glibc $(getconf GNU_LIBC_VERSION 2> /dev/null | sed 's/^glibc //')"
  echo "spotps home $HOME"
  echo "spotps processors $(getconf _NPROCESSORS_ONLN)"
  echo "spotps peer ${SSH_CLIENT%% *}"
}

# add_key LINE: to those that may log in, once.
add_key() {
  umask 077
  mkdir -p "$HOME/.ssh"
  keys="$HOME/.ssh/authorized_keys"
  touch "$keys"
  if grep -qxF -- "$1" "$keys"; then
    return
  fi
  if [ -n "$(tail -c 1 "$keys")" ]; then
    echo >> "$keys" # somebody's last line without an end
  fi
  printf '%s\n' "$1" >> "$keys"
  echo "spotps added"
}

# free FOLDER: the KiB that are free where it is or will be.
free() {
  folder="$1"
  until [ -d "$folder" ]; do
    folder="$(dirname "$folder")"
  done
  df -Pk -- "$folder" | sed -n '$s/.* \([0-9]\{1,\}\) \{1,\}[0-9]\{1,\}% .*/spotps free \1/p'
}

# state FOLDER: which package it has.
state() {
  if [ -e "$1/.content" ]; then
    echo "spotps has $(cat "$1/.content")"
  elif [ -e "$1" ] && [ -n "$(ls -A "$1")" ]; then
    echo "spotps foreign"
  fi
}

# unpack FOLDER CONTENT: a tarball from stdin, whole or not at all. Programs that run go on with the
# files that they have open.
unpack() {
  new="$1.new.$$"
  trap 'rm -rf "$new"' EXIT
  mkdir -p "$new"
  tar -xzf - -C "$new" --strip-components=1
  printf '%s\n' "$2" > "$new/.content"
  if [ -e "$1" ]; then
    mv "$1" "$1.old.$$"
  fi
  mv "$new" "$1" || {
    [ ! -e "$1.old.$$" ] || mv "$1.old.$$" "$1"
    exit 1
  }
  rm -rf "$1.old.$$"
}

deb_state() {
  if dpkg-query -W spotps > /dev/null 2>&1 && [ -e "$cache/deb.content" ]; then
    echo "spotps has $(cat "$cache/deb.content")"
  fi
}

# install_deb CONTENT: a package from stdin, by the distribution's own tool, which has to be root.
install_deb() {
  mkdir -p "$cache"
  deb="$(mktemp --suffix=.deb)" # where apt's own user may read it
  trap 'rm -f "$deb"' EXIT
  cat > "$deb"
  chmod 644 "$deb"
  root=""
  if [ "$(id -u)" != 0 ]; then
    root="sudo -n"
  fi
  export DEBIAN_FRONTEND=noninteractive
  $root apt-get -q update >&2
  $root apt-get -q install -y --reinstall "$deb" >&2
  printf '%s\n' "$1" > "$cache/deb.content"
}

# try FOLDER: whether its programs run, also as psctl has them run over ssh: as a copy in the cache
# (provisioner/fleet/ssh_agent.cc), which finds its libraries by ../lib.
try() {
  mkdir -p "$cache"
  rm -f "$cache/lib"
  if [ "$1" != /usr ]; then
    ln -s "$1/lib" "$cache/lib"
  fi
  copy="$cache/try.$$"
  trap 'rm -rf "$copy"' EXIT
  mkdir "$copy"
  cp "$1/bin/ps_worker" "$copy/"
  "$copy/ps_worker" --version > /dev/null
  echo "spotps runs $("$1/bin/psctl" --version)"
}

# data_sum FOLDER: another one when the name, size or time of a file differs.
data_sum() {
  if [ -d "$1" ]; then
    cd -- "$1"
    echo "spotps data $(find -L . -type f -printf '%P %s %T@\n' | sed 's/[.][0-9]*$//' |
      LC_ALL=C sort | sha256sum | cut -d' ' -f1)"
  fi
}

# make_folder FOLDER: that this user may write to.
make_folder() {
  if mkdir -p -- "$1" 2> /dev/null && [ -w "$1" ]; then
    return
  fi
  sudo -n mkdir -p -- "$1" && sudo -n chown "$(id -u)" -- "$1"
}

has_rsync() { command -v rsync > /dev/null; }

# put_data FOLDER: a tar from stdin.
put_data() { tar -xf - -C "$1" --no-same-owner; }

"$@"

#!/usr/bin/env bash
# An OpenSSH server on a free port of ADDRESS (127.0.0.1) with keys of its own, for the tests of the
# launcher ssh. usage: sshd.sh DIR [ADDRESS]. Prints "ready" and runs until its stdin ends.
# DIR/ssh_config is for the clients. Exit status 77: there is no sshd, and the reason is on stdout.
set -euo pipefail

dir="$1"
address="${2:-127.0.0.1}"
names="$address"
[[ $address != 127.0.0.1 ]] || names+=" localhost"
sshd="$(PATH="$PATH:/usr/sbin:/sbin" command -v sshd)" || {
  echo "there is no sshd; install openssh-server"
  exit 77
}
command -v ssh-keygen > /dev/null || {
  echo "there is no ssh-keygen; install openssh-client"
  exit 77
}
if [[ "$(id -u)" == 0 ]]; then
  mkdir -p /run/sshd # Debian's sshd asks for it, and only a started service has it
fi

for key in host user; do
  ssh-keygen -q -t ed25519 -N "" -f "$dir/$key"
done

serve() {
  local port="$1"
  cat > "$dir/sshd_config" << END
Port $port
ListenAddress $address
HostKey $dir/host
AuthorizedKeysFile $dir/user.pub $dir/root%h/.ssh/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
SetEnv HOME=$dir XDG_CACHE_HOME=$dir/cache
END
  printf '[%s]:%s %s\n' "$address" "$port" "$(cat "$dir/host.pub")" > "$dir/known_hosts"
  cat > "$dir/ssh_config" << END
Host $names
  Port $port
  HostName $address
  IdentityFile $dir/user
  IdentitiesOnly yes
  UserKnownHostsFile $dir/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
END
  : > "$dir/sshd.log"
  "$sshd" -D -e -f "$dir/sshd_config" 2> "$dir/sshd.log" &
  pid=$!
  for _ in {1..200}; do
    if grep -q "Server listening" "$dir/sshd.log"; then
      return 0
    fi
    kill -0 "$pid" 2> /dev/null || return 1
    sleep 0.02
  done
  return 1
}

for _ in {1..10}; do
  if serve "$((10000 + RANDOM % 22000))"; then
    trap 'kill "$pid"' EXIT
    echo "$pid" > "$dir/sshd.pid"
    echo "ready"
    cat > /dev/null
    exit 0
  fi
done
echo "sshd does not start: $(tail -n 1 "$dir/sshd.log")"
exit 1

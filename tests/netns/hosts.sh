#!/usr/bin/env bash
# Hosts of a small cluster on one machine: network namespaces on a bridge, with rate-limited links
# to the servers. Needs root, `ip` and `tc` (package iproute2).
#
#   hosts.sh check                      0 when hosts can be built here, else says why not (exit 77)
#   hosts.sh up PREFIX SERVERS WORKERS  PREFIX-coordinator, PREFIX-server0.., PREFIX-worker0..
#   hosts.sh rate PREFIX HOST MBIT      limits HOST's link, both directions; 0 takes the limit away
#   hosts.sh down PREFIX                removes what `up` made; fine when nothing is there
#
# Addresses: 10.88.0.1 the coordinator, 10.88.1.N server N, 10.88.2.N worker N. The bridge lives in
# a namespace of its own (PREFIX-switch), so nothing is changed in the machine's own network.
set -euo pipefail

skip_code=77

check() {
  if [[ $EUID -ne 0 ]]; then
    echo "network namespaces need root"
    exit "$skip_code"
  fi
  for tool in ip tc; do
    if ! command -v "$tool" >/dev/null; then
      echo "there is no program $tool; install the package iproute2"
      exit "$skip_code"
    fi
  done
  local probe="spotps-probe-$$"
  if ! ip netns add "$probe" 2>/dev/null; then
    echo "this machine does not let root make network namespaces"
    exit "$skip_code"
  fi
  local why=""
  ip -n "$probe" link add probe0 type veth peer name probe1 2>/dev/null || why="veth pairs"
  [[ -n $why ]] || ip netns exec "$probe" tc qdisc add dev probe0 root tbf rate 1mbit burst 64kb \
    latency 50ms 2>/dev/null || why="token bucket filters (tc tbf)"
  [[ -n $why ]] || ip -n "$probe" link add probe2 type bridge 2>/dev/null || why="bridges"
  ip netns del "$probe"
  if [[ -n $why ]]; then
    echo "this machine's kernel has no $why"
    exit "$skip_code"
  fi
}

add_host() { # PREFIX NAME ADDRESS
  local ns="$1-$2"
  ip netns add "$ns"
  # Jumbo frames, as inside clouds: with 1500 bytes the packets of 400 Mbit/s cost a processor core.
  ip -n "$1-switch" link add "$2" mtu 9000 type veth peer name eth0 mtu 9000 netns "$ns"
  ip -n "$1-switch" link set "$2" master bridge up
  ip -n "$ns" address add "$3/16" dev eth0
  ip -n "$ns" link set lo up
  ip -n "$ns" link set eth0 up
  # One that every kernel allows here, so that results of different machines compare.
  ip netns exec "$ns" sysctl -qw net.ipv4.tcp_congestion_control=reno
}

up() {
  local prefix=$1 servers=$2 workers=$3
  ip netns add "$prefix-switch"
  ip -n "$prefix-switch" link add bridge type bridge
  ip -n "$prefix-switch" link set bridge up
  add_host "$prefix" coordinator 10.88.0.1
  for ((i = 0; i < servers; ++i)); do
    add_host "$prefix" "server$i" "10.88.1.$i"
  done
  for ((i = 0; i < workers; ++i)); do
    add_host "$prefix" "worker$i" "10.88.2.$i"
  done
}

# What leaves the host is limited at its own interface, what comes in at the switch's port to it.
rate() {
  local prefix=$1 host=$2 mbit=$3
  local -a limit=(tbf rate "${mbit}mbit" burst 64kb latency 50ms)
  if [[ $mbit == 0 ]]; then
    ip netns exec "$prefix-$host" tc qdisc del dev eth0 root 2>/dev/null || true
    ip netns exec "$prefix-switch" tc qdisc del dev "$host" root 2>/dev/null || true
  else
    ip netns exec "$prefix-$host" tc qdisc replace dev eth0 root "${limit[@]}"
    ip netns exec "$prefix-switch" tc qdisc replace dev "$host" root "${limit[@]}"
  fi
}

down() {
  local ns
  for ns in $(ip netns list | cut -d' ' -f1); do
    if [[ $ns == "$1"-* ]]; then
      ip netns del "$ns"
    fi
  done
}

case "${1:-}" in
  check) check ;;
  up) up "$2" "$3" "$4" ;;
  rate) rate "$2" "$3" "$4" ;;
  down) down "$2" ;;
  *)
    echo "usage: hosts.sh check | up PREFIX SERVERS WORKERS | rate PREFIX HOST MBIT" \
      "| down PREFIX" >&2
    exit 2
    ;;
esac

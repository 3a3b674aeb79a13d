#!/usr/bin/env bash
# three_machines.sh BIN: types the lines of docs/machines.md, each on its machine: a network
# namespace with the address that the page says. Exit status 77 and the reason where none can be
# made.
#
# Nothing in a line is changed. What stands for the world around them: BIN is in PATH as an
# installed package would be, /usr/share/spotps/configs is looked for in the sources, and `scp`
# copies between the folders of the machines. `psctl train`, ps_server and ps_worker stay in their
# terminals.
set -euo pipefail

bin="$1"
source_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
hosts="$source_root/tests/netns/hosts.sh"
page="$source_root/docs/machines.md"
patience_s=120

say() { printf '%s\n' "$*" >&2; }

skip() {
  printf 'SKIP: %s\n' "$*"
  exit 77
}

why="$("$hosts" check)" || skip "$why"
[[ -d /usr/share/datasets/fashion-mnist ]] ||
  skip "/usr/share/datasets/fashion-mnist is missing: install the package dataset-fashion-mnist"

prefix="spotps-three-$$"
folder="$(mktemp -d)"
declare -A namespace=([first]=coordinator [second]=server0 [third]=worker0)
declare -A address=([first]=10.0.0.1 [second]=10.0.0.2 [third]=10.0.0.3)
declare -A terminal=() # of programs that go on: pid by name

finish() {
  local pid
  for pid in "${terminal[@]}"; do
    kill "$pid" 2> /dev/null || true
  done
  "$hosts" down "$prefix"
  rm -rf "$folder"
}
trap finish EXIT

"$hosts" up "$prefix" 1 1
# A step takes as long as its values on this link: the run can't end while it is looked at.
"$hosts" rate "$prefix" worker0 40
mkdir "$folder/tools"
for machine in first second third; do
  mkdir "$folder/$machine"
  ip -n "$prefix-${namespace[$machine]}" address add "${address[$machine]}/24" dev eth0
done
cat > "$folder/tools/scp" << SCP
#!/usr/bin/env bash
# scp ADDRESS:PATTERN PLACE
[[ \$1 == 10.0.0.1:* ]] && cp $folder/first/\${1#*:} "\$2"
SCP
cat > "$folder/tools/cp" << CP
#!/usr/bin/env bash
exec /bin/cp "\${1/#\/usr\/share\/spotps/$source_root}" "\${@:2}"
CP
chmod +x "$folder"/tools/*

# on MACHINE LINE: in the machine's folder, with its address.
on() {
  cd "$folder/$1"
  exec ip netns exec "$prefix-${namespace[$1]}" env PATH="$folder/tools:$bin:$PATH" bash -c "$2"
}

# wait_for WHAT COMMAND...: until the command succeeds.
wait_for() {
  local what="$1" deadline=$((SECONDS + patience_s))
  shift
  until "$@" > /dev/null 2>&1; do
    if [[ $SECONDS -ge $deadline ]]; then
      say "three_machines.sh: $what did not come in $patience_s s"
      tail -n 30 "$folder"/*.out >&2
      exit 1
    fi
    sleep 0.1
  done
}

is_training() { on first "psctl status three-machines --json" | grep -q '"state": *"training"'; }
is_addressed() { compgen -G "$folder/first/runs/*/coordinator.addr"; }

lines=0
while IFS= read -r line; do
  [[ $line =~ ^\ \ \ \ (first|second|third)\$\ (.*)$ ]] || continue
  machine="${BASH_REMATCH[1]}" command="${BASH_REMATCH[2]}"
  lines=$((lines + 1))
  say "$machine\$ $command"
  case "$command" in
    "psctl train "* | ps_server* | ps_worker*)
      name="$(cut -d' ' -f1 <<< "$command")"
      (on "$machine" "exec $command") > "$folder/$name.out" 2>&1 &
      terminal[$name]=$!
      case "$name" in
        psctl) wait_for "the run" is_addressed ;;
        ps_worker) wait_for "training" is_training ;;
      esac
      ;;
    "psctl runs")
      "$hosts" rate "$prefix" worker0 0
      wait "${terminal[psctl]}" "${terminal[ps_server]}" "${terminal[ps_worker]}"
      terminal=()
      (on "$machine" "$command") | tee "$folder/runs.out" >&2
      ;;
    *)
      (on "$machine" "$command") >&2
      ;;
  esac
done < "$page"

[[ $lines -ge 10 ]] || {
  say "three_machines.sh: only $lines lines were found in $page"
  exit 1
}
grep -q ' done ' "$folder/runs.out"
# What psctl printed is what the page says to type.
for command in "ps_server --coordinator 10.0.0.1:4711 --token-file token --id 0 --port 4712" \
  "ps_worker --coordinator 10.0.0.1:4711 --token-file token"; do
  grep -qF -- "$command" "$folder/psctl.out" && grep -qF -- "$command" "$page" || {
    say "three_machines.sh: psctl and the page differ about: $command"
    exit 1
  }
done

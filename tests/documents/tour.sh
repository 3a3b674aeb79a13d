#!/usr/bin/env bash
# tour.sh BIN: types the README's tour on a run of its own: what one types from another terminal,
# and how a run that was stopped is resumed. Looks at what both runs did: the workers and the mode
# that were asked for, the notice, and no sample lost in between. BIN: the programs of a build. Exit
# status 77 and the reason without the dataset.
set -euo pipefail

bin="$(realpath "$1")"
root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")"
dataset=/usr/share/datasets/fashion-mnist
[[ -d $dataset ]] || {
  echo "SKIP: $dataset is missing: install the package dataset-fashion-mnist"
  exit 77
}

folder="$(mktemp -d)"
finish() {
  local run
  for run in "$folder"/runs/*/; do
    "$bin/psctl" stop "$run" --now > /dev/null 2>&1 || true
  done
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
ln -s "$root/configs" configs

# The page's commands take the one job that is running; here others may run beside it, so all that
# look at a run are given the newest of this folder.
mkdir tools
cat > tools/psctl << PSCTL
#!/usr/bin/env bash
case "\$1" in
  resume | train) ;;
  *) set -- "\$@" "\$(find "$folder/runs" -mindepth 1 -maxdepth 1 | sort | tail -n 1)" ;;
esac
exec "$bin/psctl" "\$@"
PSCTL
chmod +x tools/psctl
export PATH="$folder/tools:$PATH"

# The job runs until the tour stops it, with steps that leave the machine room for the others.
psctl train configs/fashion_mnist_cnn.json --detach --set train.epochs=1000 'faults=[]' \
  'workers=[{"count": 4, "minibatch": 32, "step_ms": 100}]'
awk '/^    psctl status; psctl why/ {on = 1} /^$/ {on = 0} on {sub(/^    /, ""); print}' \
  "$root/README.md" > typed.sh
[[ $(grep -c psctl typed.sh) -ge 7 && $(head -n 1 typed.sh) == "psctl status; psctl why "* ]] || {
  echo "tour.sh: the README's tour is not where it was"
  exit 1
}
bash -euxo pipefail typed.sh
psctl attach > /dev/null 2>&1 || true # until it has ended

resume="$(sed -n '/^    RUN=/,/^    psctl resume/ {s/^    //; p}' "$root/README.md")"
# shellcheck disable=SC2016  # these are the page's own words
[[ $resume == *'psctl resume $RUN --set servers.count=3' ]] || {
  echo "tour.sh: the README does not say how to resume"
  exit 1
}
(bash -euxo pipefail <<< "$resume --detach")
psctl mode bsp --wait # so it trains
psctl stop
psctl attach > /dev/null 2>&1 || true

python3 - runs/*/summary.json << 'END'
import json, pathlib, sys
first, second = (json.load(open(path)) for path in sorted(sys.argv[1:]))
assert first["state"] == second["state"] == "stopped", (first["state"], second["state"])
assert first["mode"] == "ssp:2" and second["mode"] == "bsp", (first["mode"], second["mode"])
# The worker has its notice; the stop may come before it has left.
run = pathlib.Path(min(sys.argv[1:])).parent
events = [json.loads(line)["code"] for line in open(run / "events.jsonl")]
assert "notice_given" in events, events
assert first["revocations_noticed"] <= 1, first["revocations_noticed"]
assert first["joins"] >= 6, first["joins"]
assert 0 < first["samples_counted"] <= second["samples_counted"]
END

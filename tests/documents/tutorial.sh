#!/usr/bin/env bash
# tutorial.sh BIN: types the blocks of docs/tutorial.md that are marked as bash, in a folder of its
# own, as a reader would; then looks at what they left: all samples counted, worker 0 let go on its
# notice and replaced, a model that learnt and has the tensors that the page loads into PyTorch.
# BIN: the programs of a build.
set -euo pipefail

bin="$(realpath "$1")"
page="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../docs/tutorial.md")"

folder="$(mktemp -d)"
finish() {
  "$bin/psctl" stop "$folder"/runs/* --now > /dev/null 2>&1 || true
  rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
awk '/^```bash$/ {on = 1; next} /^```/ {on = 0} on' "$page" > typed.sh
[[ $(grep -c '^psctl' typed.sh) -ge 6 ]] || {
  echo "tutorial.sh: $page has hardly any commands"
  exit 1
}
PATH="$bin:$PATH" bash -euo pipefail typed.sh

python3 - runs/spirals-*/ << 'END'
import json, struct, sys
folder = sys.argv[1]
summary = json.load(open(folder + "summary.json"))
assert summary["state"] == "done", summary["state"]
assert summary["test_accuracy"] > 0.9, summary["test_accuracy"]
assert summary["samples_counted"] == 200000, summary["samples_counted"]
assert summary["revocations_noticed"] == 1, summary["revocations_noticed"]
with open(folder + "model.safetensors", "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
shapes = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
assert shapes == {
    "0.linear.weight": [64, 2], "0.linear.bias": [64], "2.linear.weight": [64, 64],
    "2.linear.bias": [64], "4.linear.weight": [3, 64], "4.linear.bias": [3]}, shapes
import csv
rows = list(csv.DictReader(open("predictions.csv")))
assert len(rows) == 3, rows
for row in rows:
    all_of_it = [float(row["p_" + name]) for name in ("0", "1", "2")]
    assert abs(sum(all_of_it) - 1) < 1e-5, row
    assert float(row["probability"]) == max(all_of_it), row
compile(open("spirals_net/model.py").read(), "model.py", "exec")
END

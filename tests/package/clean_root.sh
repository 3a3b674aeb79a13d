#!/usr/bin/env bash
# clean_root.sh BUILD: makes the Debian package of BUILD, unpacks it into a root that has nothing
# but its files and those of the packages that it depends on, and trains a small job in there. Exit
# status 77 and the reason where that can't be done.
set -euo pipefail

build="$1"
# shellcheck source=tests/package/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"

[[ $EUID -eq 0 ]] || skip "a root of its own needs root"
for tool in cpack dpkg-shlibdeps dpkg-deb chroot; do
  command -v "$tool" > /dev/null || skip "there is no program $tool; install the package dpkg-dev"
done
data=/usr/share/datasets/fashion-mnist
[[ -d $data ]] || skip "$data is missing: install the package dataset-fashion-mnist"

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
root="$folder/root"

(cd "$build" && cpack -G DEB -B "$folder/deb" > "$folder/cpack.log") || {
  cat "$folder/cpack.log" >&2
  exit 1
}
package="$(ls "$folder"/deb/*.deb)"
say "clean_root.sh: $(basename "$package") depends on $(dpkg-deb -f "$package" Depends)"

fill_root "$root" "$(dpkg-deb -f "$package" Depends)"
dpkg-deb -x "$package" "$root"
mkdir -p "$root$data"
cp "$data"/* "$root$data"

chroot="$(command -v chroot)"
inside() { env -i PATH=/usr/bin "$chroot" "$root" "$@"; }

mount -t proc proc "$root/proc"
trap 'umount "$root/proc"; rm -rf "$folder"' EXIT
job=/usr/share/spotps/configs/fashion_mnist_mlp_bsp.json
settings=(--set run.directory=/tmp/runs data.train_samples=2000 data.test_samples=500
  train.epochs=1)
inside psctl --version
inside psctl check "$job" "${settings[@]}"
inside psctl catalog show > /dev/null
inside psctl claims > /dev/null
inside ps_coordinator --help > /dev/null
inside ps_server --help > /dev/null
inside ps_worker --help > /dev/null
inside psctl train "$job" "${settings[@]}" --json > "$folder/summary.json"
grep -Eq '"state": *"done"' "$folder/summary.json"
for file in share/man/man1/psctl.1 share/man/man1/ps_worker.1 \
  share/bash-completion/completions/psctl share/zsh/vendor-completions/_psctl; do
  [[ -s $root/usr/$file ]] || {
    say "clean_root.sh: /usr/$file is missing or empty"
    exit 1
  }
done

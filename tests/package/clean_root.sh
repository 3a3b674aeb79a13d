#!/usr/bin/env bash
# clean_root.sh BUILD: makes the Debian package of BUILD, unpacks it into a root that has nothing
# but its files and those of the packages that it depends on, and trains a small job in there. Exit
# status 77 and the reason where that can't be done.
set -euo pipefail

build="$1"

say() { printf '%s\n' "$*" >&2; }

skip() {
  printf 'SKIP: %s\n' "$*"
  exit 77
}

[[ $EUID -eq 0 ]] || skip "a root of its own needs root"
for tool in cpack dpkg-shlibdeps dpkg-deb chroot; do
  command -v "$tool" > /dev/null || skip "there is no program $tool; install the package dpkg-dev"
done
data=/usr/share/datasets/fashion-mnist
[[ -d $data ]] || skip "$data is missing: install the package dataset-fashion-mnist"

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
root="$folder/root"
mkdir -p "$root"/{dev,proc,tmp,root}
mknod -m 666 "$root/dev/null" c 1 3

(cd "$build" && cpack -G DEB -B "$folder/deb" > "$folder/cpack.log") || {
  cat "$folder/cpack.log" >&2
  exit 1
}
package="$(ls "$folder"/deb/*.deb)"
say "clean_root.sh: $(basename "$package") depends on $(dpkg-deb -f "$package" Depends)"

# names TEXT: the packages of a Depends field, the installed one of alternatives.
names() {
  local clause name
  local -a clauses
  IFS=',' read -r -a clauses <<< "$1"
  for clause in "${clauses[@]}"; do
    for name in $(sed -e 's/([^)]*)//g' -e 's/:any//g' -e 's/|/ /g' <<< "$clause"); do
      if dpkg-query -W "$name" > /dev/null 2>&1; then
        printf '%s\n' "$name"
        break
      fi
    done
  done
}

# What the package depends on, and what that depends on.
declare -A needed=()
mapfile -t queue < <(names "$(dpkg-deb -f "$package" Depends)")
while [[ ${#queue[@]} -gt 0 ]]; do
  name="${queue[0]}"
  queue=("${queue[@]:1}")
  [[ -z ${needed[$name]:-} ]] || continue
  needed[$name]=1
  # shellcheck disable=SC2016  # the format is dpkg-query's
  mapfile -t more < <(names "$(dpkg-query -W -f '${Pre-Depends}, ${Depends}' "$name")")
  queue+=("${more[@]}")
done
say "clean_root.sh: in the root: ${!needed[*]}"
for directory in bin lib lib64 sbin; do
  if [[ -L /$directory ]]; then
    mkdir -p "$root/usr/$directory"
    cp -P "/$directory" "$root/"
  fi
done
for name in "${!needed[@]}"; do
  while read -r path; do
    if [[ -f $path && ! -d $path ]]; then
      printf '%s\0' "$path"
    fi
  done < <(dpkg -L "$name")
done | tar --create --null --no-recursion --files-from=- --file=- --absolute-names 2> /dev/null |
  tar --extract --file=- --directory="$root" --keep-directory-symlink 2> /dev/null
ldconfig -r "$root"
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

#!/usr/bin/env bash
# container.sh: what scripts/container.sh asks of a builder of images, with one of this test's own,
# since there is no container engine where it runs.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/without"

fail() {
  echo "container.sh: $*"
  exit 1
}

# Notes its words and the Dockerfile that it is given.
cat > "$folder/bin/docker" << 'END'
#!/bin/sh
echo "$*" >> "$NOTES/words"
[ "$1" = build ] || exit 0
cp "$3" "$NOTES/Dockerfile"
ls "$6" > "$NOTES/context"
[ ! -e "$NOTES/broken" ]
END
chmod +x "$folder/bin/docker"
for program in bash dirname basename sed cat ls mktemp rm cp; do
  ln -s "$(command -v "$program")" "$folder/without/$program"
done
build() {
  NOTES="$folder" PATH="$folder/bin:$folder/without" "$root/scripts/container.sh" "$@" \
    > "$folder/out" 2>&1
}

"$root/scripts/container.sh" --print | cmp - "$root/Dockerfile" || fail "--print prints another"

touch "$folder/spotps_1_amd64.deb"
build --tag registry/spotps:2 --package "$folder/spotps_1_amd64.deb" --push ||
  fail "$(cat "$folder/out")"
grep -q '^build --file .* --tag registry/spotps:2 ' "$folder/words" || fail "$(cat "$folder/words")"
grep -q '^push registry/spotps:2$' "$folder/words" || fail "it was not pushed"
grep -q '^COPY spotps_1_amd64.deb /tmp/$' "$folder/Dockerfile" || fail "no package is copied"
grep -q 'apt-get install .*/tmp/spotps_' "$folder/Dockerfile" || fail "the package is not installed"
if grep -q 'AS build\|from=build' "$folder/Dockerfile"; then
  fail "the sources are compiled nevertheless"
fi
grep -qx spotps_1_amd64.deb "$folder/context" || fail "the package is not in the context"

touch "$folder/spotps-1-linux-x.tar.gz"
build --package "$folder/spotps-1-linux-x.tar.gz" || fail "$(cat "$folder/out")"
grep -qx 'ADD spotps-1-linux-x.tar.gz /opt/' "$folder/Dockerfile" || fail "no tarball is unpacked"
if grep -q '/tmp/\|COPY' "$folder/Dockerfile"; then fail "a package is installed as well"; fi
# What the image's commands do, with folders of this test in the place of its own.
mkdir -p "$folder"/{opt/spotps-1-linux-x/{bin,share/spotps},usr/bin,usr/share}
touch "$folder/opt/spotps-1-linux-x/bin/psctl" "$folder/opt/spotps-1-linux-x/share/spotps/found"
sed -n '/^RUN/,/[^\\]$/p' "$folder/Dockerfile" | sed -e 's/^RUN //' -e "s,/opt/\|/usr/,$folder&,g" \
  -e "s,/var/lib/apt,$folder/lists,g" > "$folder/run"
(
  # shellcheck disable=SC2317  # what is sourced calls it
  apt-get() { echo "$*" >> "$folder/installed"; }
  # shellcheck source=/dev/null
  source "$folder/run"
) || fail "the image's commands fail: $(cat "$folder/run")"
[[ -e $folder/usr/bin/psctl && -e $folder/usr/share/spotps/found ]] || fail "$(cat "$folder/run")"
grep -q '^install .*dataset-fashion-mnist' "$folder/installed" || fail "$(cat "$folder/installed")"

build || fail "$(cat "$folder/out")"
cmp "$folder/Dockerfile" "$root/Dockerfile" || fail "not the Dockerfile of the repository"
grep -qx CMakeLists.txt "$folder/context" || fail "the sources are not in the context"
grep -q -- '--tag spotps:[0-9]' "$folder/words" || fail "no version in $(cat "$folder/words")"

touch "$folder/broken"
if build; then fail "a build that fails is no success"; fi
grep -q 'docker could not build the image' "$folder/out" || fail "$(cat "$folder/out")"
if build --package "$folder/nothing.deb"; then fail "a package that is not there was taken"; fi
grep -q 'nothing.deb is no package; allowed: ' "$folder/out" || fail "$(cat "$folder/out")"
rm "$folder/bin/docker"
if build; then fail "it built without an engine"; fi
grep -q 'no podman, docker or buildah here; try: apt-get install podman' "$folder/out" ||
  fail "$(cat "$folder/out")"
if build --unknown; then fail "an unknown flag was taken"; fi
grep -q '^usage: ' "$folder/out" || fail "$(cat "$folder/out")"

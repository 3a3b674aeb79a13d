#!/usr/bin/env bash
# tarball.sh BUILD OUT: makes spotps-VERSION-linux-ARCHITECTURE.tar.gz in OUT of the programs that
# are compiled in BUILD, with the libraries that they need, and prints its path. It runs wherever it
# is unpacked, on systems whose glibc and libstdc++ are as new as the newest functions of these that
# anything in it calls: made on Debian 12, these are Debian 12, Ubuntu 22.04 and 24.04.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
shopt -s nullglob # a build with sanitizers has no libspotps.so

# What the system has: glibc, which has to fit its loader, and GCC's two, which apt needs too. Those
# of Debian 12 would ask for a newer glibc than that of Ubuntu 22.04.
SYSTEM='^(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|resolv|util|anl|stdc\+\+|gcc_s))\.so\.[0-9]+$'
# The oldest of the systems named above: Ubuntu 22.04, and Debian 12.
OLDEST_GLIBC=2.35
OLDEST_GLIBCXX=3.4.30

[[ $# == 2 ]] || die "usage: scripts/tarball.sh BUILD OUT"
for tool in cmake objdump ldd dpkg-query; do
  command -v "$tool" > /dev/null ||
    die "there is no program $tool here; install cmake and binutils, on Debian or Ubuntu"
done
build="$(realpath "$1")"
[[ -x $build/bin/psctl ]] || die "$build/bin/psctl is missing; build psctl and the other programs"
mkdir -p "$2"
out="$(realpath "$2")"
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")"
architecture="$(uname -m)"
name="spotps-$version-linux-$architecture"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
root="$scratch/$name"

# Prints "SONAME PATH" of each library that the programs load and the system does not have.
bundled_libraries() {
  local library arrow path rest
  ldd "$root"/bin/* "$root"/lib/*.so | while read -r library arrow path rest; do
    if [[ "$path $rest" == "not found"* ]]; then
      die "a library of the programs is missing here: $library"
    elif [[ $arrow == "=>" && ! $library =~ $SYSTEM ]]; then
      printf '%s %s\n' "$library" "$path"
    fi
  done | sort -u
}

# copy_libraries: puts them in lib/, and the licence of each one's package beside the list of all.
copy_libraries() {
  local library path package
  local -A package_of=()
  local -a real_paths
  # One question for all: each takes dpkg-query a quarter of a second.
  mapfile -t real_paths < <(cut -d' ' -f2 "$scratch/libraries" | xargs -r realpath)
  while IFS=' ' read -r package path; do
    package_of[${path##*/}]="${package%%:*}"
  done < <(dpkg-query -S "${real_paths[@]/#*\//*/}" 2> /dev/null)
  local licences="$root/share/doc/spotps/libraries"
  mkdir -p "$licences"
  {
    printf 'The libraries in lib/ are those of this distribution: %s.\n' \
      "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)"
    printf 'Its source packages have their sources; PACKAGE.copyright is the licence of each.\n\n'
    printf '%-26s %-24s %-26s %s\n' library package version "source package"
  } > "$licences/README"
  while read -r library path; do
    cp -L "$path" "$root/lib/$library"
    package="${package_of[$(basename "$(realpath "$path")")]:-}"
    [[ -n $package ]] || die "$path is of no package, so its licence is not known"
    cp -L "/usr/share/doc/$package/copyright" "$licences/$package.copyright"
    # shellcheck disable=SC2016  # the format is dpkg-query's
    printf '%-26s %s\n' "$library" "$(dpkg-query --show \
      -f '${Package;-24} ${Version;-26} ${source:Package} ${source:Version}' "$package")"
  done < "$scratch/libraries" >> "$licences/README"
}

# newest_of PREFIX: the highest version PREFIX_1.2.3 that the loader would ask of the system for
# anything in the tarball.
newest_of() {
  objdump -p "$root"/bin/* "$root"/lib/*.so* | sed -n '/^Version References/,/^$/p' |
    grep -o "\b$1_[0-9.]*" | sed "s/^$1_//" | sort -Vu | tail -n 1
}

is_at_most() { [[ "$(printf '%s\n' "$1" "$2" | sort -V | tail -n 1)" == "$2" ]]; }

# What each file asks for is in lib/ or the system's, and is looked for in lib/ first.
verify() {
  local file needed headers
  for file in "$root"/bin/* "$root"/lib/*.so*; do
    headers="$(objdump -p "$file")"
    while read -r needed; do
      [[ -e $root/lib/$needed || $needed =~ $SYSTEM ]] ||
        die "$(basename "$file") needs $needed, which is not in the tarball"
    done < <(sed -n 's/^ *NEEDED *//p' <<< "$headers")
    ! grep -q '^ *RUNPATH' <<< "$headers" ||
      die "$(basename "$file") has a RUNPATH, so its libraries would not be looked for in lib/"
    # shellcheck disable=SC2016  # the loader's word
    [[ $file != "$root/bin/"* ]] || grep -q '^ *RPATH *$ORIGIN/../lib\(:\|$\)' <<< "$headers" ||
      die "$(basename "$file") does not look into ../lib; configure $build again and build it"
  done
}

cmake --install "$build" --prefix "$root" --strip > "$scratch/install.log" ||
  die "cmake --install failed: $(tail -n 5 "$scratch/install.log")"
mkdir -p "$root/lib" "$root/python" "$root/scripts"
cp "$ROOT"/scripts/{lib,on_host,prepare_host}.sh "$root/scripts/"
cp -r "$ROOT"/python/{pyproject.toml,README.md,spotps} "$root/python/"
rm -rf "$root/python/spotps/__pycache__"
bundled_libraries > "$scratch/libraries"
copy_libraries
verify
glibc="$(newest_of GLIBC)"
glibcxx="$(newest_of GLIBCXX)"
printf '%s\n' "version=$version" "architecture=$architecture" "glibc=$glibc" "glibcxx=$glibcxx" \
  > "$root/PLATFORM"
cat > "$root/README" << END
spotps $version for Linux on $architecture, with all libraries but glibc $glibc or newer and GCC's
libstdc++ (GLIBCXX_$glibcxx). It runs from this folder, wherever that is; nothing is compiled.

    export PATH="\$PWD/bin:\$PATH"
    psctl --help

Scripts in PyTorch take the package in python/ (pip install torch ./python).

Begin with share/doc/spotps/docs/ten-minutes.md. Licences: share/doc/spotps/LICENSE, and those of
the libraries in share/doc/spotps/libraries. The distribution does not update these libraries: take
a newer tarball, or where it fits the Debian package, whose libraries are the distribution's own.
END
if ! is_at_most "$glibc" "$OLDEST_GLIBC" || ! is_at_most "$glibcxx" "$OLDEST_GLIBCXX"; then
  say "tarball: it calls functions of glibc $glibc and libstdc++ $glibcxx, and so does not run on" \
    "all of Debian 12, Ubuntu 22.04 and 24.04; one that is made on Debian 12 does"
fi

# PLATFORM first, so that who asks for it need not unpack the rest.
moment="$(git -C "$ROOT" log -1 --format=%ct 2> /dev/null || date +%s)"
tar --create --directory="$scratch" --sort=name --owner=0 --group=0 --numeric-owner \
  --mtime="@$moment" --no-recursion "$name/PLATFORM" --recursion --exclude="$name/PLATFORM" \
  "$name" > "$scratch/tar" || die "tar failed"
gzip -n < "$scratch/tar" > "$scratch/packed"
mv "$scratch/packed" "$out/$name.tar.gz"
say "tarball: $(du -h --apparent-size "$out/$name.tar.gz" | cut -f1)," \
  "unpacked $(du -sh --apparent-size "$root" | cut -f1)," \
  "$(wc -l < "$scratch/libraries") libraries, glibc $glibc and newer"
ls "$out/$name.tar.gz"

# shellcheck shell=bash
# A folder that is the root of a machine with some packages and nothing else. Sourced. The files are
# those of the packages installed here: nothing is downloaded.

say() { printf '%s\n' "$*" >&2; }

skip() {
  printf 'SKIP: %s\n' "$*"
  exit 77
}

# with_dependencies DEPENDS: the packages of such a field, what they depend on, and what that
# depends on; the first installed one of alternatives. What no package is called, such as "(>= 2)",
# is passed over.
with_dependencies() {
  local name depends clause
  local -A needed=() depends_of=()
  local -a fields=("$1") clauses
  # shellcheck disable=SC2016  # the format is dpkg-query's
  while IFS=$'\t' read -r name depends; do
    depends_of[$name]="$depends "
  done < <(dpkg-query -W -f '${Package}\t${Pre-Depends}, ${Depends}\n' | sed 's/:any//g')
  while [[ ${#fields[@]} -gt 0 ]]; do
    IFS=',' read -r -a clauses <<< "${fields[0]}"
    fields=("${fields[@]:1}")
    for clause in "${clauses[@]}"; do
      for name in ${clause//|/ }; do
        [[ -n ${depends_of[$name]:-} ]] || continue
        if [[ -z ${needed[$name]:-} ]]; then
          needed[$name]=1
          fields+=("${depends_of[$name]}")
        fi
        break
      done
    done
  done
  printf '%s\n' "${!needed[@]}"
}

# fill_root ROOT DEPENDS: makes it, with those packages and what they depend on.
fill_root() {
  local root="$1" directory name path
  local -a packages
  mapfile -t packages < <(with_dependencies "$2")
  say "in the root: ${packages[*]}"
  mkdir -p "$root"/{dev,etc,proc,tmp,root,run}
  mknod -m 666 "$root/dev/null" c 1 3
  mknod -m 666 "$root/dev/urandom" c 1 9
  ln -s /proc/self/fd "$root/dev/fd"
  ln -s fd/0 "$root/dev/stdin"
  for directory in bin lib lib64 sbin; do
    if [[ -L /$directory ]]; then
      mkdir -p "$root/usr/$directory"
      cp -P "/$directory" "$root/"
    fi
  done
  for name in "${packages[@]}"; do
    while read -r path; do
      if [[ -f $path && ! -d $path ]]; then
        printf '%s\0' "$path"
      fi
    done < <(dpkg -L "$name" 2> /dev/null | grep -Ev '^/usr/share/(doc|info|locale|man)/')
  done | tar --create --null --no-recursion --files-from=- --file=- --absolute-names 2> /dev/null |
    tar --extract --file=- --directory="$root" --keep-directory-symlink 2> /dev/null
  ldconfig -r "$root"
}

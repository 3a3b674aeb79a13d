#!/usr/bin/env bash
# install_test.sh BIN: the package as people install it, in a virtual environment of its own: from
# the tree, and as the wheel, which has the library of BIN. Exit status 77 and the reason where no
# package can be built.
set -euo pipefail
bin="$(realpath "$1")"
root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")"
unset PYTHONPATH SPOTPS_LIBRARY SPOTPS_WORKER SPOTPS_DESCRIBE
/usr/bin/python3 -c 'import venv, setuptools, wheel, pip' 2> /dev/null || {
  echo "SKIP: /usr/bin/python3 has no venv, pip, setuptools or wheel: scripts/setup.sh --tests"
  exit 77
}
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mkdir tree && cp -r "$root/python" tree/python # pip builds beside it

# With the distribution's setuptools, so that nothing is fetched.
/usr/bin/python3 -m venv --system-site-packages --without-pip environment
python="$folder/environment/bin/python3"
pip() {
  /usr/bin/python3 -m pip --disable-pip-version-check --python "$python" "$@" --quiet
}
before="$(find environment -not -path '*/__pycache__*' | sort)"
fail() {
  echo "install_test.sh: $*"
  exit 1
}

is_library_found() {
  "$python" -c 'from spotps import _library; import sys; sys.exit(_library.load()[1] or 0)' 2>&1
}

pip install --no-index --no-deps --no-build-isolation ./tree/python
version="$("$python" -c 'import spotps; print(spotps.__version__, spotps.Client.open())')"
[[ $version == "0.1.0 None" ]] || fail "from the tree it says: $version"
why="$(is_library_found)" && fail "the tree has no library, and one was found"
[[ $why == *"set SPOTPS_LIBRARY"* ]] || fail "it does not say what to do: $why"

wheel="$("$root/scripts/wheel.sh" "$bin" "$folder/out")"
pip install --no-index --no-deps --force-reinstall "$wheel"
is_library_found || fail "the wheel's library is not found"
place="$("$python" -c 'import spotps; print(spotps.__file__)')"
[[ $place == "$folder/environment"/* ]] || fail "it is imported from $place"

pip uninstall --yes spotps
after="$(find environment -not -path '*/__pycache__*' | sort)"
[[ $before == "$after" ]] || fail "left behind: $(diff <(echo "$before") <(echo "$after"))"

#!/usr/bin/env bash
# ruff over all Python of the tree, and mypy over the package, as python/pyproject.toml says. Both
# are of build/venv, where scripts/setup.sh --tests puts them. Exit status 77, and the reason,
# without them.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"

bin="$ROOT/build/venv/bin"
for tool in ruff mypy; do
  [[ -x "$bin/$tool" ]] || {
    echo "SKIP: $tool is not in build/venv: scripts/setup.sh --tests puts it there"
    exit 77
  }
done
find configs python scripts tests -name '*.py' -print0 |
  xargs -0 "$bin/ruff" check --no-cache --quiet --config python/pyproject.toml
cache="$(mktemp -d)"
trap 'rm -rf "$cache"' EXIT
"$bin/mypy" --config-file python/pyproject.toml --cache-dir "$cache" --no-error-summary \
  python/spotps

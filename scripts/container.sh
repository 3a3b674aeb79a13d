#!/usr/bin/env bash
# container.sh [--print] [--tag NAME] [--package FILE] [--push]
#
# Builds an image with the programs of spotps, as Pods of Kubernetes need one (docs/kubernetes.md),
# by podman, docker or buildah, whichever there is.
#   --print    prints the Dockerfile instead
#   --tag      the image's name; default: spotps:VERSION
#   --package  with this .deb or tarball of scripts/package.sh; default: the sources here are
#              compiled in a stage of the build, which takes minutes
#   --push     to the registry that the name begins with, after it
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

usage() {
  say "usage: scripts/container.sh [--print] [--tag NAME] [--package FILE] [--push]"
  exit 2
}

tag="spotps:$(sed -n 's/^project(spotps.*VERSION \([0-9.]*\).*/\1/p' "$ROOT/CMakeLists.txt")"
package="" print="" push=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --print) print=1 ;;
    --push) push=1 ;;
    --tag | --package)
      [[ -n "${2:-}" ]] || usage
      if [[ "$1" == --tag ]]; then tag="$2"; else package="$2"; fi
      shift
      ;;
    *) usage ;;
  esac
  shift
done
if [[ -n "$package" && (! -f "$package" || "$package" != *@(.deb|.tar.gz)) ]]; then
  die "$package is no package; allowed: a spotps_*.deb or spotps-*.tar.gz that scripts/package.sh" \
    "has made"
fi

# The Dockerfile, or what of it is left when there is a package. ADD unpacks a tarball.
dockerfile() {
  local name
  name="$(basename "$package")"
  case "$package" in
    "") cat "$ROOT/Dockerfile" ;;
    *.deb)
      sed -n '/^FROM debian:12$/,$p' "$ROOT/Dockerfile" |
        sed "s|^COPY --from=build .*|COPY $name /tmp/|"
      ;;
    *)
      # In the places of the package: Pods look for programs in /usr/bin.
      printf '%s\n' "FROM debian:12" "ADD $name /opt/" \
        "RUN ln -s /opt/spotps-*/bin/* /usr/bin/ \\" \
        "  && ln -s /opt/spotps-*/share/spotps /usr/share/ \\"
      sed -n '/^RUN apt-get update/,$p' "$ROOT/Dockerfile" |
        sed 's|^RUN apt-get|  \&\& apt-get|; s|/tmp/spotps_[*][.]deb ||'
      ;;
  esac
}

if [[ -n "$print" ]]; then
  dockerfile
  exit 0
fi

engine=""
for name in podman docker buildah; do
  if command -v "$name" > /dev/null; then
    engine="$name"
    break
  fi
done
[[ -n "$engine" ]] || die "no podman, docker or buildah here; try: apt-get install podman, or" \
  "give scripts/container.sh --print to another builder"

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
dockerfile > "$folder/Dockerfile"
context="$ROOT"
if [[ -n "$package" ]]; then
  cp "$package" "$folder/"
  context="$folder"
fi
"$engine" build --file "$folder/Dockerfile" --tag "$tag" "$context" ||
  die "$engine could not build the image; its own words are above"
say "container: $tag"
if [[ -n "$push" ]]; then
  "$engine" push "$tag" || die "$engine could not push $tag; is it logged in there?"
fi

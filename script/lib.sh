# What the scripts beside this file share. Sourced, never run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Where a link leads, so that worktrees which share one folder agree on what is ready.
state=$(readlink -m "$root/.weft")

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

# die MESSAGE: one line on stderr, then out. Messages end in "Fix: ...", like the library's own.
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# A script's head comment is its --help.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo > /dev/null; then
    sudo "$@"
  else
    die "this needs root and there is no sudo. Fix: run as root: $*"
  fi
}

# missing_packages NAME...: prints those that dpkg does not have installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' "$@" 2> /dev/null |
    awk '$2 == "installed" { sub(":.*", "", $1); print $1 }') || true
  comm -23 <(printf '%s\n' "$@" | sort -u) <(printf '%s\n' "$installed" | sort -u)
}

# need_packages NAME...: installs what is missing. On a system without apt it only says what the build will look for.
need_packages() {
  if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
    say "no apt-get here; the build looks for what these Debian packages hold: $*"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [ "${#missing[@]}" = 0 ]; then return; fi
  say "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" \
    > "$state/apt.log" 2>&1 || {
    tail -n 20 "$state/apt.log" >&2
    die "apt-get could not install ${missing[*]}. Fix: see $state/apt.log."
  }
}

# stamped FILE CONTENT: whether FILE holds exactly CONTENT, so that the step which wrote it need not run again.
stamped() { [ -f "$1" ] && [ "$(< "$1")" = "$2" ]; }

# ensure_venv FOLDER REQUIREMENTS: a virtual environment with exactly these pinned packages, made anew when they changed.
ensure_venv() {
  local venv=$1 requirements=$2 python key
  python=$(command -v python3) || die "python3 is missing. Fix: install Python 3.11 or later with venv."
  # The path is part of it because a virtual environment does not survive being moved.
  key="$venv $(readlink -f "$python") $(sha256sum < "$requirements")"
  if stamped "$venv/.stamp" "$key"; then return; fi
  say "making ${venv#"$root"/}"
  rm -f "$venv/.stamp"  # first: what is interrupted below must not look whole
  rm -rf "$venv"
  "$python" -m venv "$venv"
  "$venv/bin/python" -m pip --quiet --disable-pip-version-check install --require-hashes --only-binary :all: \
    -r "$requirements"
  printf '%s' "$key" > "$venv/.stamp"
}

jobs() { nproc 2> /dev/null || getconf _NPROCESSORS_ONLN; }

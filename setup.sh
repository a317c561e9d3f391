#!/bin/sh
# Makes .venv from requirements.lock: with uv, which is installed into .venv where it is not on PATH,
# or with pip alone where that does not work or pip is told to use an index of its own.
set -eu
python=${PYTHON:-python3}

fail() { printf 'setup: %s\n' "$1" >&2; exit 1; }

command -v "$python" >/dev/null 2>&1 ||
  fail "no $python on PATH; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$("$python" --version 2>&1) is too old; name Python 3.11 or newer: make PYTHON=/path/to/python3.11"

pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }

with_uv() {
  "$1" pip sync --quiet --compile-bytecode --python .venv/bin/python --require-hashes requirements.lock &&
    "$1" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
}

with_pip() {
  pip install --require-hashes --requirement requirements.lock
  pip install --no-deps --no-build-isolation --editable .
}

# puts the uv of requirements.lock into .venv
get_uv() {
  [ -z "${PIP_INDEX_URL:-}" ] && ! pip config list | grep -q 'index-url' || return 1
  sed -n '/^uv==/,/[^\\]$/p' requirements.lock > .venv/uv.lock
  pip install --require-hashes --requirement .venv/uv.lock
}

rm -f .venv/.complete
if command -v uv >/dev/null 2>&1; then
  echo 'setup: making .venv with uv'
  [ -x .venv/bin/python ] || uv venv --quiet --python "$python" .venv
  with_uv uv || fail 'uv cannot install what requirements.lock lists; see above'
else
  [ -x .venv/bin/python ] || "$python" -m venv .venv ||
    fail 'python -m venv failed; install the venv module (Debian: python3-venv) or uv'
  if get_uv && echo 'setup: making .venv with venv and uv' && with_uv .venv/bin/uv; then
    :
  else
    echo 'setup: making .venv with venv and pip'
    with_pip
  fi
fi
# a cold start must not wait for the compiler, whatever PYTHONDONTWRITEBYTECODE says
.venv/bin/python -m compileall -q src/colltune
.venv/bin/colltune --version >/dev/null || fail 'the installed colltune does not start'
touch .venv/.complete

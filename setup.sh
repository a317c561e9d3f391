#!/bin/sh
# Makes .venv from requirements.lock: with uv where it is installed, else with venv and pip.
set -eu
python=${PYTHON:-python3}

fail() { printf 'setup: %s\n' "$1" >&2; exit 1; }

command -v "$python" >/dev/null 2>&1 ||
  fail "no $python on PATH; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$("$python" --version 2>&1) is too old; name Python 3.11 or newer: make PYTHON=/path/to/python3.11"

rm -f .venv/.complete
if command -v uv >/dev/null 2>&1; then
  echo 'setup: making .venv with uv'
  [ -x .venv/bin/python ] || uv venv --quiet --python "$python" .venv
  uv pip sync --quiet --compile-bytecode --python .venv/bin/python --require-hashes requirements.lock
  uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
else
  echo 'setup: making .venv with venv and pip'
  [ -x .venv/bin/python ] || "$python" -m venv .venv ||
    fail 'python -m venv failed; install the venv module (Debian: python3-venv) or uv'
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
fi
# a cold start must not wait for the compiler, whatever PYTHONDONTWRITEBYTECODE says
.venv/bin/python -m compileall -q src/colltune
.venv/bin/colltune --version >/dev/null || fail 'the installed colltune does not start'
touch .venv/.complete

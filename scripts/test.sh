#!/usr/bin/env bash
# Everything: the Rust tests, then the end-to-end tests against the real binary.
# Arguments go to pytest, for example: scripts/test.sh -k openai
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})

scripts/python-env.sh
PREFOLD_SMOLLM2_GGUF=${PREFOLD_SMOLLM2_GGUF:-$(scripts/fetch-smollm2.sh)}
export PREFOLD_SMOLLM2_GGUF

cargo test "${cargo_flags[@]}" --workspace
cargo build "${cargo_flags[@]}" --workspace --bins
.venv/bin/python -m pytest tests/e2e "$@"

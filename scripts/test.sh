#!/usr/bin/env bash
# All tests: the Rust tests, the tests of the Python package, then the end-to-end tests of the real binary. Arguments are
# passed to pytest of the end-to-end tests, for example: scripts/test.sh -k openai. The time of each stage is printed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})

source scripts/stages.sh

fetch_weights() {
    PREFOLD_SMOLLM2_GGUF=${PREFOLD_SMOLLM2_GGUF:-$(scripts/fetch-smollm2.sh)}
    export PREFOLD_SMOLLM2_GGUF
}

stage "Python packages" scripts/python-env.sh
stage "SmolLM2's weights" fetch_weights
stage "compilation of the Rust tests" cargo test "${cargo_flags[@]}" --workspace --no-run
stage "Rust tests" cargo test "${cargo_flags[@]}" --workspace
stage "compilation of the programs" cargo build "${cargo_flags[@]}" --workspace --bins
stage "Python package" scripts/test-python.sh
# Three files at once, because most tests wait more than they work; in order, because the longest file is the first.
stage "end-to-end tests" .venv/bin/python -m pytest tests/e2e -n 3 --dist loadfile --no-loadscope-reorder \
    --durations=20 --durations-min=1 "$@"

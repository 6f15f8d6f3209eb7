#!/usr/bin/env bash
# Benchmarks of docs/benchmarks.md that need no server. Prints tables and writes JSON and SVG to the given directory
# (default: target/bench). About 15 minutes on two cores; every figure is a ratio within one run or the fastest of a few.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})
out=${1:-${CARGO_TARGET_DIR:-target}/bench}
mkdir -p "$out"
# Built together with the server, so that dependencies have the same features as for `make demo` and `make serve`.
cargo build "${cargo_flags[@]}" --release -p prefold -p prefold-benches
bench=${CARGO_TARGET_DIR:-target}/release/prefold-bench

run() {
    local name=$1
    shift
    printf '\n$ prefold-bench %s\n' "$*"
    "$bench" "$@" --json "$out/$name.json" --svg "$out/$name.svg"
}

run kernels kernels
run attention attention --prefix 0,128,512,2048 --suffix 16,64,256
run forward-smollm2-135m forward --shape smollm2-135m --warm 0 --runs 1
# All layers have the same shape: 4 of the 28 layers give the same ratios in a seventh of the time.
run forward-qwen3-0.6b forward --shape qwen3-0.6b --layers 4 --warm 0 --runs 1 --profile
cargo bench "${cargo_flags[@]}" -p prefold -p prefold-benches --bench planning

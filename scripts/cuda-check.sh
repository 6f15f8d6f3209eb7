#!/usr/bin/env bash
# Checks the GPU code on a machine without a GPU: runs the kernels in emulation, compiles them for every supported GPU, checks the workspace
# with the feature `cuda` and warnings denied, and runs tests and servers on the simulated device.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})

source scripts/stages.sh

stage "CUDA kernels in emulation" scripts/cuda-emulate.sh
scripts/cuda-simulated.sh
eval "$(scripts/cuda-toolchain.sh)"
export NVCC_APPEND_FLAGS="-Xcicc -O1 -Xptxas -O0 -Xcompiler -O0" CUDAFORGE_THREADS=${CUDAFORGE_THREADS:-$(nproc)}
# The profile of `make lint`: its checks of crates without the feature are used again, as is cuda-simulated.sh's build of candle's kernels.
stage "clippy with the feature cuda" cargo clippy "${cargo_flags[@]}" --workspace --all-targets --features cuda -- -D warnings

#!/usr/bin/env bash
# Checks the GPU code on a machine without a GPU: runs the kernels in emulation, compiles them for every supported GPU, links and
# runs their tests, which are skipped without a device, then checks the workspace and builds its programs with the feature `cuda`
# and warnings denied.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})

source scripts/stages.sh

fetch_toolkit() {
    toolchain=$(scripts/cuda-toolchain.sh)
    eval "$toolchain"
}

stage "CUDA kernels in emulation" scripts/cuda-emulate.sh
stage "CUDA toolkit" fetch_toolkit
# The stub driver reports that there is no device.
if [ -e "$CUDA_HOME/lib64/stubs/libcuda.so" ] && ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
    stub=$(realpath "${CARGO_TARGET_DIR:-target}")/cuda-stub
    mkdir -p "$stub"
    ln -sfn "$CUDA_HOME/lib64/stubs/libcuda.so" "$stub/libcuda.so.1"
    LD_LIBRARY_PATH=$stub${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$CUDA_HOME/lib64
# Fails if a kernel does not compile for a target of kernels/build.rs.
stage "CUDA kernels and their tests" cargo test "${cargo_flags[@]}" -p prefold-kernels --features cuda --lib --test cuda
# Of this build nothing runs but `prefold --version`, and candle's own kernels, most of which prefold never calls, take eight
# minutes with optimisation.
export NVCC_APPEND_FLAGS="-Xcicc -O1 -Xptxas -O0 -Xcompiler -O0" CUDAFORGE_THREADS=${CUDAFORGE_THREADS:-$(nproc)}
stage "clippy with the feature cuda" cargo clippy "${cargo_flags[@]}" --workspace --all-targets --features cuda -- -D warnings
stage "programs with the feature cuda" cargo build "${cargo_flags[@]}" --workspace --bins --features cuda \
    --config profile.dev.opt-level=0 --config profile.dev.package.candle-core.opt-level=0
"${CARGO_TARGET_DIR:-target}/debug/prefold" --version

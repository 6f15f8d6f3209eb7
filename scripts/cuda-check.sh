#!/usr/bin/env bash
# Keeps the GPU code from rotting where there is no GPU: the kernels in emulation, then compiled for every supported GPU, the
# whole workspace checked and its programs built with the feature `cuda` and warnings denied, and the kernels' tests linked and
# run, which skip themselves without a device.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo_flags=(${CARGO_FLAGS---locked})

scripts/cuda-emulate.sh

toolchain=$(scripts/cuda-toolchain.sh) || exit
eval "$toolchain"
# Fails when a kernel does not compile for one of the targets of kernels/build.rs.
cargo clippy "${cargo_flags[@]}" --workspace --all-targets --features cuda -- -D warnings
# The stub stands in for the driver, as far as to say that there is no device.
if [ -e "$CUDA_HOME/lib64/stubs/libcuda.so" ] && ! ldconfig -p | grep -q 'libcuda\.so\.1'; then
    stub=$(mktemp -d)
    trap 'rm -rf "$stub"' EXIT
    ln -s "$CUDA_HOME/lib64/stubs/libcuda.so" "$stub/libcuda.so.1"
    LD_LIBRARY_PATH=$stub${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$CUDA_HOME/lib64
cargo build "${cargo_flags[@]}" --workspace --bins --features cuda
"${CARGO_TARGET_DIR:-target}/debug/prefold" --version
cargo test "${cargo_flags[@]}" -p prefold-kernels --features cuda --lib --test cuda

#!/usr/bin/env bash
# Compares the CUDA kernels, emulated on the CPU (kernels/cuda/emulation), with plain loops: checks indices, bounds, barriers, alignment and
# bank conflicts without a GPU. Needs a C++ compiler; about a minute. Skipped if the sources have not changed.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${CARGO_TARGET_DIR:-target}/cuda-emulation
mkdir -p "$out"
hash=$(cat kernels/cuda/*.cu kernels/cuda/*.cuh kernels/cuda/emulation/* scripts/cuda-emulate.sh | sha256sum | cut -c1-16)
if [ "$(cat "$out/passed" 2>/dev/null)" = "$hash" ]; then
    echo "the CUDA kernels have passed in emulation ($hash)"
    exit
fi
# -march=native fuses multiplications and additions if this machine can, as on a GPU. Threads switch between stacks, which the checks
# of _FORTIFY_SOURCE report as an error. Unlike a CPU, a GPU refuses accesses that are not aligned to their size.
flags=(-std=c++17 -O2 -march=native -U_FORTIFY_SOURCE -fsanitize=alignment -fno-sanitize-recover=alignment -Wall -Werror -Wno-unknown-pragmas
    -Wno-unused-function -DPREFOLD_EMULATION -I kernels/cuda)
"${CXX:-c++}" "${flags[@]}" kernels/cuda/emulation/check.cpp -o "$out/check"
"$out/check"
echo "$hash" >"$out/passed"

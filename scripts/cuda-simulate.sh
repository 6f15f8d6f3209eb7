#!/usr/bin/env bash
# Builds the simulated device (kernels/cuda/simulated): libraries with the names of the CUDA driver and cuBLAS, which run an unchanged
# prefold on the CPU. Prints their directory, to be put into LD_LIBRARY_PATH. Needs a C++ compiler and
# the toolkit's headers (CUDA_HOME, see cuda-toolchain.sh). Compiles what has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(realpath -m "${CARGO_TARGET_DIR:-target}")/cuda-simulated
source=kernels/cuda/simulated
mkdir -p "$out/objects" "$out/lib"

# Multiplications and additions are fused if this machine can, as on a GPU. The emulated threads switch between stacks, which the
# checks of _FORTIFY_SOURCE report as an error.
flags=(-std=c++17 -O3 -g1 -march=native -U_FORTIFY_SOURCE -fPIC -Wall -Werror -Wno-unknown-pragmas -Wno-unused-function -Wno-deprecated-declarations
    -DPREFOLD_EMULATION -I kernels/cuda -isystem "$CUDA_HOME/include")
hash=$(cat kernels/cuda/*.cu* kernels/cuda/emulation/*.h "$source"/* scripts/cuda-simulate.sh | sha256sum | cut -c1-16)
if [ "$(cat "$out/built" 2>/dev/null)" != "$hash" ]; then
    library() { # name, soname's version, objects and libraries
        printf '%s.so.%s { global: *; };\n' "$1" "$2" >"$out/objects/$1.map"
        local versioned=()
        [ "$1" = libcuda ] || versioned=(-Wl,--version-script="$out/objects/$1.map")
        "${CXX:-c++}" -shared -Wl,-soname,"$1.so.$2" "${versioned[@]}" -o "$out/lib/$1.so.$2" "${@:3}" -L "$out/lib" -pthread
    }
    find "$source" -name '*.cpp' -print0 | xargs -0 -P 2 -I '{}' sh -c '"$0" "$@" -c {} -o "'"$out"'/objects/$(basename {} .cpp).o"' "${CXX:-c++}" "${flags[@]}"
    objects() { printf "$out/objects/%s.o\n" "$@"; }
    mapfile -t driver < <(objects settings counts memory faults executor kernels driver driver_errors modules)
    library libcuda 1 "${driver[@]}"
    library libcublas 13 "$out/objects/cublas.o" -l:libcuda.so.1
    echo "$hash" >"$out/built"
fi
echo "$out/lib"

#!/usr/bin/env bash
# Compiles kernels/cuda/*.cu for one architecture into a directory, one cubin each, for benches/gpu/kernels and for PREFOLD_CUDA_MODULES:
#
#     benches/gpu/cubins.sh target/cubins                  # all modules, sm_90
#     benches/gpu/cubins.sh target/variant norm rope       # some
#     ARCH=80 EXTRA="-maxrregcount=128" benches/gpu/cubins.sh target/variant attention
#
# nvcc is found by NVCC, CUDA_HOME or the path. The flags are the flags of kernels/build.rs, followed by EXTRA. Prints the sizes, and fails
# if the cubins of the directory have more than 2 MiB in total.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
shift
cd "$(dirname "$0")/../../kernels/cuda"
[ $# -gt 0 ] || set -- $(basename -s .cu *.cu)
for nvcc in "${NVCC:-}" "${CUDA_HOME:-}/bin/nvcc" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    [ -x "$nvcc" ] && break
done
[ -x "$nvcc" ] || { echo "cubins: there is no nvcc at NVCC, CUDA_HOME, the path or /usr/local/cuda" >&2; exit 1; }

compile() { # module
    # The rename is atomic: the result is complete or absent.
    "$nvcc" -std=c++17 -O3 -Werror all-warnings -cubin -arch="sm_${ARCH:-90}" ${EXTRA:-} -o "$out/$1.unfinished" "$1.cu"
    mv "$out/$1.unfinished" "$out/$1.cubin"
}
export -f compile
export nvcc out
printf '%s\n' "$@" | xargs -P 2 -I '{}' bash -euc 'compile {}'

limit=$((2 << 20)) sum=0
for cubin in "$out"/*.cubin; do
    size=$(stat -c %s "$cubin")
    printf '%8d %s\n' "$size" "$(basename "$cubin")"
    sum=$((sum + size))
done
printf '%8d in all\n' "$sum"
[ "$sum" -le "$limit" ] || { echo "cubins: more than $limit bytes" >&2; exit 1; }

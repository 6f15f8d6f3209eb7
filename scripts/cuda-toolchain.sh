#!/usr/bin/env bash
# Creates a CUDA toolkit sufficient to build the feature `cuda`, without root or a GPU, and prints the environment variables
# to set:
#
#     eval "$(scripts/cuda-toolchain.sh)"
#     cargo build --release --features cuda
#
# The toolkit comes from PyPI (scripts/cuda-requirements.txt) and is cached in the given directory or in
# ~/.cache/prefold/cuda-<hash of the list>. A toolkit with nvcc at CUDA_HOME, CUDA_PATH or /usr/local/cuda is used instead of a
# download, unless PREFOLD_CUDA_WHEELS=1.
#
# The toolkit is for building. To run without an installed toolkit, add its directory `lib` (cuBLAS, cuRAND, NVRTC) to
# LD_LIBRARY_PATH. libcuda.so.1 must be the machine's own driver, never the stub.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/cuda-requirements.txt
PYTHON=${PYTHON:-python3}

environment() {
    printf 'export CUDA_HOME=%q CUDA_PATH=%q CUDA_ROOT=%q CUDA_TOOLKIT_ROOT_DIR=%q\n' "$1" "$1" "$1" "$1"
    printf 'export PATH=%q:"$PATH"\n' "$1/bin"
    # Target of candle's kernels. prefold's kernels are compiled for all targets in kernels/build.rs.
    printf 'export CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-90}\n'
}

if [ -z "${PREFOLD_CUDA_WHEELS:-}" ] && [ $# -eq 0 ]; then
    for toolkit in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
        if [ -n "$toolkit" ] && [ -x "$toolkit/bin/nvcc" ]; then
            environment "$toolkit"
            exit
        fi
    done
fi

# The package list and this script determine the toolkit's content.
hash=$(cat "$requirements" scripts/cuda-toolchain.sh | sha256sum | cut -c1-12)
prefix=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/prefold/cuda-$hash}
toolkit=$prefix/nvidia/cu13
if [ "$(cat "$prefix/complete" 2>/dev/null)" = "$hash" ]; then
    environment "$toolkit"
    exit
fi

for tool in cc ar; do
    command -v "$tool" >/dev/null || { echo "cuda-toolchain: needs a C compiler ($tool is missing)" >&2; exit 1; }
done
mkdir -p "$(dirname "$prefix")"
# Created in the target's parent directory and renamed at the end, so that an interrupted run leaves no partial toolkit.
building=$(mktemp -d "$prefix.XXXXXX")
trap 'rm -rf "$building"' EXIT
echo "cuda-toolchain: fetching CUDA 13.0 from PyPI (about 0.6 GB, once) into $prefix" >&2
if ! "$PYTHON" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --root-user-action ignore --target "$building" \
    --requirement "$requirements" >&2; then
    echo "cuda-toolchain: the packages of $requirements cannot be had from PyPI, and there is no toolkit at CUDA_HOME," \
         "CUDA_PATH or /usr/local/cuda: the cuda feature cannot be built here" >&2
    exit 1
fi

cu13=$building/nvidia/cu13
chmod -R u+w "$cu13"
find "$cu13/bin" -type f -exec chmod +x {} +
find "$cu13/nvvm/bin" -type f -exec chmod +x {} + 2>/dev/null || true
# Build scripts search lib64; linkers need names without a version.
ln -sfn lib "$cu13/lib64"
for library in "$cu13"/lib/*.so.*; do
    name=${library%%.so.*}.so
    [ -e "$name" ] || ln -s "$(basename "$library")" "$name"
done

# Stub of the driver's library, which is missing on machines without a driver. Linking needs only the symbols that the static and
# dynamic libraries of the toolkit, and cudarc, refer to.
mkdir -p "$cu13/lib/stubs"
header=$cu13/include/cuda.h
{
    echo '/* A stub: the names of the driver interface, to link against. It must never be loaded. */'
    # The header maps some names to versioned ones (cuCtxCreate to cuCtxCreate_v2).
    {
        grep -oE '\bcu[A-Z][A-Za-z0-9]*(_v[0-9]+|_ptsz|_ptds)*[[:space:]]*\(' "$header" | tr -d '( \t'
        grep -oE '^#[[:space:]]*define[[:space:]]+cu[A-Z][A-Za-z0-9]*[[:space:]]+cu[A-Z][A-Za-z0-9_]*' "$header" |
            awk '{ print $NF }'
    } | grep -vE '_ptsz$|_ptds$' | sort -u | sed 's/.*/int &(void) { return 999; }/'
} >"$cu13/lib/stubs/cuda.c"
cc -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o "$cu13/lib/stubs/libcuda.so" "$cu13/lib/stubs/cuda.c"
ln -sfn stubs/libcuda.so "$cu13/lib/libcuda.so"

"$cu13/bin/nvcc" --version | tail -2 | head -1 >&2
echo "$hash" >"$building/complete"
rm -rf "$prefix"
mv "$building" "$prefix"
trap - EXIT
environment "$toolkit"

#!/usr/bin/env bash
# Builds an image of the Dockerfile, `cpu` or `cuda`, without a daemon or registry, runs it as its own user, sends requests, stops it with
# SIGTERM, and prints its size. With BUILT=DIRECTORY the cpu image gets `out/prefold` from there instead of a build; ARCHIVE=FILE writes the
# image as an OCI archive. The cuda image serves from the CPU first, then from the simulated device (scripts/cuda-simulate.sh), whose
# libraries are mounted. Needs root, Debian's packages buildah and debootstrap, and an installed Rust toolchain. Takes about 20 minutes on
# two cores, mostly for the release build.
#
# Base images are not pulled. debootstrap makes the base image, tagged with the name in the Dockerfile; the Rust image is the same
# tree with a C compiler and the local toolchain. Cargo's downloads and the CUDA toolkit are mounted, not copied.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:-cpu}
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker
suite=bookworm
base_image=docker.io/library/debian:bookworm-slim
rust_image=docker.io/library/rust:1-bookworm
image=localhost/prefold:$target
port=${PORT:-3999}

for tool in buildah debootstrap cargo rustc curl; do
    command -v "$tool" >/dev/null || { echo "docker-check: $tool is missing (apt-get install buildah debootstrap)" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "docker-check: debootstrap and chroot need root" >&2; exit 1; }

work=$(mktemp -d)
container=
server=
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$container" ] || buildah rm "$container" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleanup EXIT

have() { buildah inspect --type image "$1" >/dev/null 2>&1; }

base_from_tree() { # NAME TREE COMMAND...
    local name=$1 tree=$2 id
    shift 2
    id=$(buildah from scratch)
    buildah copy -q "$id" "$tree" / >/dev/null
    [ $# = 0 ] || buildah config "$@" "$id"
    buildah commit -q "$id" "$name" >/dev/null
    buildah rm "$id" >/dev/null
}

have "$base_image" || {
    debootstrap --variant=minbase "$suite" "$work/slim" >/dev/null
    rm -rf "$work/slim/var/cache/apt"/*.bin "$work/slim/var/lib/apt/lists"/* "$work/slim/usr/share"/{doc,man,locale}/*
    base_from_tree "$base_image" "$work/slim" --cmd bash
}
[ -n "${BUILT:-}" ] || have "$rust_image" || {
    debootstrap --variant=minbase --include=gcc,g++,libc6-dev,ca-certificates "$suite" "$work/rust" >/dev/null
    mkdir -p "$work/rust/usr/local/rust"
    cp -a "$(rustc --print sysroot)"/{bin,lib} "$work/rust/usr/local/rust/"
    base_from_tree "$rust_image" "$work/rust" --env PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        --env CARGO_HOME=/usr/local/cargo
}

volumes=(--volume "${CARGO_HOME:-$HOME/.cargo}/registry:/usr/local/cargo/registry")
if [ "$target" = cuda ]; then
    # The variable selects the pinned toolkit even if another one is installed.
    eval "$(PREFOLD_CUDA_WHEELS=1 scripts/cuda-toolchain.sh)"
    volumes+=(--volume "${CUDA_HOME%/nvidia/cu13}:/opt/cuda")
    simulated=$(scripts/cuda-simulate.sh)
fi
if [ -n "${BUILT:-}" ]; then
    # A build context replaces the stage of that name.
    volumes=(--build-context "build-$target=$BUILT")
else
    cargo fetch --locked
fi
buildah bud --pull-never --target "$target" "${volumes[@]}" -t "$image" .

container=$(buildah from --pull-never "$image")
size=$(buildah images --format '{{.Size}}' "$image")
buildah run "$container" -- id

serve() { # expected log line, then options of `buildah run`, `--`, and flags: sends requests to the server and stops it
    local expected=$1 runner
    local -a options=()
    shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    # Runs the image's user and entry point, as a container runtime does.
    buildah run --env PORT="$port" "${options[@]}" "$container" -- prefold --port "$port" "${@:2}" >"$work/log" 2>&1 &
    runner=$!
    for _ in $(seq 120); do
        curl -sf "http://127.0.0.1:$port/ready" >/dev/null && break
        kill -0 "$runner" 2>/dev/null || break
        sleep 1
    done
    curl -sSf -o /dev/null -w '/health %{http_code}\n' "http://127.0.0.1:$port/health" || { cat "$work/log"; exit 1; }
    curl -sSf "http://127.0.0.1:$port/info" | grep -o '"device":"[^"]*"'
    curl -sSf -H 'content-type: application/json' -d '{"inputs": "a red fox"}' "http://127.0.0.1:$port/embed" | cut -c1-80
    echo
    # The server's process, a descendant of the one started above.
    server=$(pgrep -f "^/usr/local/bin/prefold --port $port( |\$)")
    ps -o user=,uid=,args= -p "$server"
    kill -TERM "$server"
    server=
    wait "$runner" && echo "stopped on SIGTERM with status 0"
    grep -o "$expected" "$work/log" || { cat "$work/log"; exit 1; }
}

case $target in
    cpu) serve 'device="cpu"' -- ;;
    cuda)
        serve 'runs on the CPU, although built for CUDA: there is no NVIDIA driver (libcuda.so.1 is not found)' --
        if buildah run "$container" -- prefold --device cuda >"$work/log" 2>&1; then
            echo "docker-check: the server started without a driver"; exit 1
        fi
        grep -o 'there is no NVIDIA driver.*' "$work/log"
        # cuBLAS and its dependencies.
        buildah run "$container" -- bash -c 'ldd /usr/local/lib/libcublas.so.13 && ldconfig -p' >"$work/libraries"
        grep -q 'libcublas.so.13 .*=> /usr/local/lib' "$work/libraries" && ! grep 'not found' "$work/libraries"
        serve 'device="cuda:0"' --volume "$simulated:/simulated:ro" --env LD_LIBRARY_PATH=/simulated \
            -- --device cuda --max-batch-tokens 64 --max-input-length 64 --warmup-tokens 16
        ;;
esac
echo "image $image: $size"
if [ -n "${ARCHIVE:-}" ]; then
    rm -f "$ARCHIVE"
    buildah push --quiet --format oci "$image" "oci-archive:$ARCHIVE:prefold:$target"
fi

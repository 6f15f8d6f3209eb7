#!/usr/bin/env bash
# Builds the Dockerfile's image `cpu` without a daemon or registry, runs it as its own user, sends requests, stops it with SIGTERM,
# and prints its size. Needs root, Debian's packages buildah and debootstrap, and an installed Rust toolchain. Takes about 20
# minutes on two cores, mostly for the release build.
#
# Base images are not pulled. debootstrap makes the base, tagged with the Dockerfile's name for it; the Rust image is the same tree
# with a C compiler and the local toolchain. Cargo's downloads are mounted, not copied.
set -euo pipefail
cd "$(dirname "$0")/.."

export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot BUILDAH_FORMAT=docker
suite=bookworm
cpu_image=docker.io/library/debian:bookworm-slim
rust_image=docker.io/library/rust:1-bookworm
image=localhost/prefold:cpu
port=${PORT:-3999}

for tool in buildah debootstrap cargo rustc curl; do
    command -v "$tool" >/dev/null || { echo "docker-check: $tool is missing (apt-get install buildah debootstrap)" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "docker-check: debootstrap and chroot need root" >&2; exit 1; }

work=$(mktemp -d)
container=
cleanup() {
    pkill -f "^/usr/local/bin/prefold --port $port\$" || true
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

have "$cpu_image" || {
    debootstrap --variant=minbase "$suite" "$work/slim" >/dev/null
    rm -rf "$work/slim/var/cache/apt"/*.bin "$work/slim/var/lib/apt/lists"/* "$work/slim/usr/share"/{doc,man,locale}/*
    base_from_tree "$cpu_image" "$work/slim" --cmd bash
}
have "$rust_image" || {
    debootstrap --variant=minbase --include=gcc,g++,libc6-dev,ca-certificates "$suite" "$work/rust" >/dev/null
    mkdir -p "$work/rust/usr/local/rust"
    cp -a "$(rustc --print sysroot)"/{bin,lib} "$work/rust/usr/local/rust/"
    base_from_tree "$rust_image" "$work/rust" --env PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        --env CARGO_HOME=/usr/local/cargo
}

registry=${CARGO_HOME:-$HOME/.cargo}/registry
cargo fetch --locked
buildah bud --pull-never --target cpu --volume "$registry:/usr/local/cargo/registry" -t "$image" .

container=$(buildah from --pull-never "$image")
size=$(buildah images --format '{{.Size}}' "$image")
buildah run "$container" -- id
# As a container runtime does: the image's user and entry point.
buildah run --env PORT="$port" "$container" -- prefold --port "$port" >"$work/log" 2>&1 &
runner=$!
for _ in $(seq 60); do
    curl -sf "http://127.0.0.1:$port/health" >/dev/null && break
    sleep 1
done
curl -sSf -o /dev/null -w '/health %{http_code}\n' "http://127.0.0.1:$port/health"
curl -sSf -H 'content-type: application/json' -d '{"inputs": "a red fox"}' "http://127.0.0.1:$port/embed" | cut -c1-80
echo
# The server's process, a descendant of the one started above.
server=$(pgrep -f "^/usr/local/bin/prefold --port $port\$")
ps -o user=,uid=,args= -p "$server"
kill -TERM "$server"
wait "$runner" && echo "stopped on SIGTERM with status 0"
echo "image $image: $size"

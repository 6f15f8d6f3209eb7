#!/usr/bin/env bash
# Runs the lines of docs/install.md with the files of target/dist (`make dist`) in bare Debian roots without Rust: the tarball in Debian 11
# and 12, the wheel and the image in Debian 12. `source`, which runs only if named, uses Debian 12 with a C compiler and the installed Rust
# toolchain instead of a download, and takes a quarter of an hour; the others take two minutes. Arguments select among: tarball pip image
# source. Needs root, curl, and Debian's packages buildah and debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

# Roots are in a separate file system in memory, which ends with this process, as its mounts do. Nothing is ever removed from a root:
# mounts there belong to the machine.
[ -n "${PREFOLD_MOUNTS:-}" ] || exec env PREFOLD_MOUNTS=own unshare --mount --propagation private "$0" "$@"

export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
target=$(realpath "${CARGO_TARGET_DIR:-target}")
dist=$target/dist
port=${PORT:-3998}
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
root=
server=
container=
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ -z "$container" ] || buildah rm "$container" >/dev/null 2>&1 || true
    umount --lazy "$work"
    rmdir "$work"
}
trap cleanup EXIT
fail() { echo "install-check: $*" >&2; exit 1; }

(cd "$dist" && sha256sum --check --quiet SHA256SUMS)
version=$(cd "$dist" && echo prefold-*-x86_64-linux.tar.gz)
version=${version#prefold-}
version=${version%-x86_64-linux.tar.gz}

wheel_version=${version/-dev/.dev0} # Python's form (PEP 440)

line() { # the command of an installation method in docs/install.md, for this version
    sed -n "s/^| $1 | \`\([^\`]*\)\` .*/\1/p" docs/install.md | sed "s/VERSION-\*.whl/$wheel_version-*.whl/g; s/VERSION/$version/g" | grep . || fail "docs/install.md has no line for $1"
}

root() { # SUITE [PACKAGE...]: a fresh root with these packages, the files in /dist, and this machine's network settings
    local suite=$1 packages=${*:2} file
    local kept="$target/roots/$suite${packages:+-${packages// /-}}.tar"
    mkdir -p "${kept%/*}"
    root=$(mktemp -d "$work/$suite-XXXX")
    if [ -f "$kept" ]; then
        tar -C "$root" -xf "$kept"
    else
        debootstrap --variant=minbase ${packages:+--include="${packages// /,}"} "$suite" "$root" >"$work/log" 2>&1 ||
            { tail -20 "$work/log"; fail "no root of $suite"; }
        tar -C "$root" -cf "$kept.part" . && mv "$kept.part" "$kept"
    fi
    ! chroot "$root" sh -c 'command -v cargo || command -v rustc' || fail "the root of $suite has Rust"
    mkdir "$root/dist"
    cp "$dist"/*.whl "$dist"/*.tar.gz "$root/dist"
    mount --bind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
        [ -e "$file" ] || continue
        mkdir -p "$root${file%/*}"
        cp --remove-destination --dereference "$file" "$root$file"
    done
}

network=()
while read -r variable; do network+=("$variable"); done < <(env | grep -E '^(PIP_|SSL_CERT_|https?_proxy=|HTTPS?_PROXY=|NO_PROXY=)')

inside() { # COMMAND in the root
    chroot "$root" /usr/bin/env -i "${network[@]}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        sh -ec "cd /dist; $1"
}

serves() { # PATTERN COMMAND...: starts the server, sends a request, and stops the process whose command line matches
    local pattern=$1 runner
    "${@:2}" --hostname 127.0.0.1 --port "$port" >"$work/log" 2>&1 &
    runner=$!
    for _ in $(seq 60); do
        curl -sf "http://127.0.0.1:$port/ready" >/dev/null && break
        kill -0 "$runner" 2>/dev/null || break
        sleep 1
    done
    server=$(pgrep -f "$pattern .*--port $port\$") || { cat "$work/log"; fail "no server"; }
    curl -sSf -H 'content-type: application/json' -d '{"inputs": "a red fox"}' "http://127.0.0.1:$port/embed" | grep -q '^\[\[' ||
        { cat "$work/log"; fail "no answer"; }
    kill -TERM "$server"
    server=
    wait "$runner" || fail "the server ended with status $?"
}

has_version() { # OUTPUT
    [ "${1%% (*}" = "prefold $version" ] || fail "--version is '$1', not $version"
}

tarball() {
    local suite
    for suite in bullseye bookworm; do
        root "$suite"
        inside "$(line tarball)"
        has_version "$(inside 'prefold --version')"
        serves '^/usr/local/bin/prefold' chroot "$root" /usr/local/bin/prefold
        echo "tarball: $(inside 'prefold --version') serves in $suite, $(inside 'ldd --version' | head -1)"
    done
}

pip() {
    root bookworm python3 python3-venv
    # Debian's pip installs into virtual environments only.
    inside "python3 -m venv /opt/prefold; . /opt/prefold/bin/activate; $(line pip)" >"$work/log" 2>&1 || { cat "$work/log"; fail "pip"; }
    has_version "$(inside '/opt/prefold/bin/prefold --version')"
    serves '/opt/prefold/bin/prefold' chroot "$root" /opt/prefold/bin/prefold
    inside '/opt/prefold/bin/python -c "
import sys, prefold
vectors = prefold.Model().embed([\"a red fox\", \"a lock\"])
print(\"pip: prefold\", prefold.__version__, \"embeds in Python\", sys.version.split()[0], vectors.dtype, vectors.shape)
"'
}

image() {
    local archive=prefold-$version-cpu-image.oci.tar
    line image | grep -q "^podman run .* oci-archive:$archive\$" || fail "docs/install.md names another archive than $archive"
    # buildah, which uses podman's libraries, replaces it.
    container=$(buildah from "oci-archive:$dist/$archive")
    ! buildah run "$container" -- sh -c 'command -v cargo || command -v rustc' 2>/dev/null || fail "the image has Rust"
    has_version "$(buildah run "$container" -- prefold --version)"
    serves '^/usr/local/bin/prefold' buildah run "$container" -- prefold
    echo "image: $(buildah run "$container" -- prefold --version) serves as $(buildah run "$container" -- id -un)"
}

from_source() {
    local rust=/opt/rust cargo=${CARGO_HOME:-$HOME/.cargo}
    root bookworm ca-certificates gcc g++ libc6-dev
    mkdir -p "$root$rust" "$root/root/.cargo/registry" "$root/src"
    mount --bind -o ro "$(rustc --print sysroot)" "$root$rust"
    mount --bind "$cargo/registry" "$root/root/.cargo/registry"
    git archive HEAD | tar -x -C "$root/src"
    inside "cd /src; export PATH=$rust/bin:\$PATH CARGO_NET_OFFLINE=true; $(line source)"
    has_version "$(inside '/root/.cargo/bin/prefold --version')"
    serves '^/root/.cargo/bin/prefold' chroot "$root" /root/.cargo/bin/prefold
    echo "source: $(inside '/root/.cargo/bin/prefold --version') serves"
}

[ $# -gt 0 ] || set -- tarball pip image
for way in "$@"; do
    case $way in
        tarball | pip | image) "$way" ;;
        source) from_source ;;
        *) fail "$way is not an installation method" ;;
    esac
done

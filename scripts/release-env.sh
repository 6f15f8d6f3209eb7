# Sourced by the scripts that build release files: tools, and flags for reproducible builds.
#
# zig's C compiler and linker target glibc 2.17, the version of manylinux2014 and older than Debian 11's 2.31.
glibc=2.17
triple=x86_64-unknown-linux-gnu
target=$(realpath "${CARGO_TARGET_DIR:-target}")
tools=$target/release-tools
export CARGO_TARGET_DIR=$target

if ! cmp -s scripts/wheel-requirements.txt "$tools/requirements.txt"; then
    rm -rf "$tools"
    "${PYTHON:-python3}" -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement scripts/wheel-requirements.txt
    cp scripts/wheel-requirements.txt "$tools/requirements.txt"
fi
PATH=$tools/bin:$PATH

# The same wrappers for wheel and program, so that both share compiled crates. The variables of cargo's linker and C compiler contain
# the target triple.
for compiler in cc c++; do
    printf '#!/bin/sh\nexec "%s" zig %s -- -fno-sanitize=all -target x86_64-linux-gnu.%s "$@"\n' \
        "$tools/bin/cargo-zigbuild" "$compiler" "$glibc" >"$tools/bin/zig-$compiler.part"
    chmod +x "$tools/bin/zig-$compiler.part"
    mv "$tools/bin/zig-$compiler.part" "$tools/bin/zig-$compiler"
done
printf '#!/bin/sh\nexec "%s" zig ar -- "$@"\n' "$tools/bin/cargo-zigbuild" >"$tools/bin/zig-ar"
chmod +x "$tools/bin/zig-ar"
export CC_x86_64_unknown_linux_gnu=$tools/bin/zig-cc CXX_x86_64_unknown_linux_gnu=$tools/bin/zig-c++ AR_x86_64_unknown_linux_gnu=$tools/bin/zig-ar
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=$tools/bin/zig-cc

# Timestamps in archives: the time of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

# Paths in panic and assertion messages: /prefold, /cargo and /rustc instead of this machine's paths.
remapped=("$PWD=/prefold" "$target=/target" "$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc")
for sources in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
    remapped+=("$sources=/cargo")
done
RUSTFLAGS=
# mimalloc contains its compilation time.
CFLAGS='-Wno-builtin-macro-redefined -D__DATE__="" -D__TIME__=""'
for pair in "${remapped[@]}"; do
    RUSTFLAGS+=" --remap-path-prefix=$pair"
    CFLAGS+=" -ffile-prefix-map=$pair"
done
export RUSTFLAGS CFLAGS CXXFLAGS=$CFLAGS

#!/usr/bin/env bash
# Builds the release files for x86-64 Linux into target/dist: the tarball of the program, the wheel, the cpu image as an OCI archive, the
# bill of materials, the licences of linked code, and SHA256SUMS of all files. Checks that all have the same version and that the program
# needs no newer glibc than the wheel. IMAGE=0 omits the image, which needs root and the packages named in scripts/docker-check.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/release-env.sh

out=$target/dist
rm -rf "$out"
mkdir -p "$out"
scripts/wheel.sh

# With the features of both packages, so that crates compiled for the wheel are reused.
cargo build --locked --release --target "$triple" -p prefold -p prefold-python --bin prefold
program=$target/$triple/release/prefold
version=$("$program" --version)
version=${version#prefold }
version=${version%% (*}
name=prefold-$version-x86_64-linux
wheel_version=${version/-dev/.dev0} # Python's form (PEP 440)

fail() { echo "dist: $*" >&2; exit 1; }
grep -q "^version = \"$version\"\$" Cargo.toml || fail "--version is $version, Cargo.toml has another"
[ -f "$out/prefold-$wheel_version-cp310-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl" ] || fail "the wheel has another version than $version"
newest=$("$tools/bin/python" - "$program" <<'PYTHON'
import sys
from elftools.elf.elffile import ELFFile

versions = ELFFile(open(sys.argv[1], "rb")).get_section_by_name(".gnu.version_r")
names = [needed.name for _, needs in versions.iter_versions() for needed in needs if needed.name.startswith("GLIBC_2")]
print(".".join(map(str, max(tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in names))))
PYTHON
)
[ "$(printf '%s\n' "$newest" "$glibc" | sort -V | tail -1)" = "$glibc" ] || fail "the program needs glibc $newest, it must run with $glibc"

scripts/materials.py prefold prefold-python --bom "$out/$name.cdx.json" --licences "$out/$name.licences.txt"

tree=$target/dist-tree
rm -rf "$tree"
install -D -m 755 "$program" "$tree/$name/prefold"
install -m 644 LICENSE README.md CHANGELOG.md "$tree/$name/"
install -m 644 "$out/$name.licences.txt" "$tree/$name/LICENSES-OF-DEPENDENCIES.txt"
install -m 644 deploy/prefold.service "$tree/$name/"
tar --create --directory "$tree" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu "$name" |
    gzip --no-name --best >"$out/$name.tar.gz"

if [ "${IMAGE:-1}" = 1 ]; then
    mkdir -p "$tree/image/out"
    cp "$program" "$tree/image/out/"
    BUILT=$tree/image ARCHIVE=$out/prefold-$version-cpu-image.oci.tar scripts/docker-check.sh cpu
fi

(cd "$out" && sha256sum -- * >"$target/SHA256SUMS" && mv "$target/SHA256SUMS" .)
ls -l "$out"

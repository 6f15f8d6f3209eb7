#!/usr/bin/env bash
# Builds the wheel of the release for x86-64 Linux into target/dist, and checks its tag, its size and its version. Takes about ten minutes
# on two cores. The tests of the package run with WHEEL=FILE scripts/test-python.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/release-env.sh

limit=$((40 * 1000 * 1000))
out=$target/dist
mkdir -p "$out"
rm -f "$out"/*.whl
# Packed into the wheel, in addition to prefold's own licence.
scripts/materials.py prefold-python --bom "$target/wheel.cdx.json" --licences python/LICENSE-OF-DEPENDENCIES.txt
maturin build --release --compatibility manylinux2014 --target "$triple" --manifest-path python/Cargo.toml --out "$out"
wheel=$(echo "$out"/*.whl)

auditwheel show "$wheel" | tee "$target/auditwheel.txt"
grep -q "\"manylinux_${glibc/./_}_x86_64\"" "$target/auditwheel.txt" || { echo "wheel: the tag does not name glibc $glibc" >&2; exit 1; }
size=$(stat -c %s "$wheel")
[ "$size" -lt "$limit" ] || { echo "wheel: $size bytes, the limit is $limit" >&2; exit 1; }
echo "$wheel: $size bytes"

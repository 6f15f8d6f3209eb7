#!/usr/bin/env bash
# Tests the Python package as installed from a wheel: in a fresh environment of .venv's Python that sees .venv's packages, including Arrow
# and the libraries of the adapters, and in fresh environments of the other installed Pythons from 3.10 to 3.13, with numpy only. The wheel
# is built in the development profile, whose dependencies the other tests have compiled; WHEEL=FILE tests another wheel. Arguments are
# passed to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/python-env.sh
work=${CARGO_TARGET_DIR:-target}/python
mkdir -p "$work"
packages=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

if [ -z "${WHEEL:-}" ]; then
    rm -rf "$work/wheels"
    .venv/bin/maturin build --quiet --profile dev --manifest-path python/Cargo.toml --compatibility linux \
        --interpreter .venv/bin/python --out "$work/wheels"
    WHEEL=$(echo "$work"/wheels/*.whl)
fi

found() { # a working Python of this version: on the PATH, or pyenv's
    local python
    for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            command -v "$python"
            return
        fi
    done
}

fresh() { # DIRECTORY PYTHON
    rm -rf "$1"
    "$2" -m venv "$1"
}

pip=(-m pip install --quiet --disable-pip-version-check)
own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
runs=()
for version in 3.10 3.11 3.12 3.13; do
    python=$(found "$version")
    if [ "$version" = "$own" ] || [ -z "$python" ]; then
        continue
    fi
    (
        fresh "$work/$version" "$python"
        "$work/$version/bin/python" "${pip[@]}" "$WHEEL" pytest
        "$work/$version/bin/python" -m pytest python/tests -q -p no:cacheprovider "$@"
    ) >"$work/$version.log" 2>&1 &
    runs+=("$version=$!")
done

fresh "$work/$own" .venv/bin/python
"$work/$own/bin/python" "${pip[@]}" --no-deps "$WHEEL"
echo "$packages" >"$("$work/$own/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages.pth"
status=0
"$work/$own/bin/python" -m pytest python/tests -rs -p no:cacheprovider "$@" || status=1
(cd python && "../.venv/bin/python" -m mypy --python-executable "$(cd ..; realpath -s "$work/$own/bin/python")") || status=1
"$work/$own/bin/python" -m mypy.stubtest prefold._prefold || status=1

for run in "${runs[@]}"; do
    if wait "${run#*=}"; then
        echo "Python ${run%=*}: $(tail -1 "$work/${run%=*}.log")"
    else
        echo "Python ${run%=*}:"
        tail -60 "$work/${run%=*}.log"
        status=1
    fi
done
exit $status

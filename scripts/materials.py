#!/usr/bin/env python3
"""Bill of materials and licences of the code linked into the program: `materials.py PACKAGE... --bom FILE --licences
FILE`.

Reads `cargo metadata` and `cargo tree`: crates that are linked with the default features for x86-64 Linux, without build scripts and tests.
The bill is CycloneDX 1.6 in JSON, without a timestamp or a random number, so that two builds write the same bytes. The licences are the
texts in the crates' own files.
"""

import argparse
import hashlib
import json
import re
import subprocess
import tomllib
import uuid
from pathlib import Path

TARGET = "x86_64-unknown-linux-gnu"
# Files with texts of licences and notices, excluding other files with similar names.
LICENCE = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)([-._].*)?$", re.IGNORECASE)
NOT_A_TEXT = {".rs", ".toml", ".json", ".py", ".sh", ".c", ".h", ".html", ".yml", ".yaml"}


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], capture_output=True, text=True, check=True).stdout


def linked(packages):
    """(name, version) of all crates that the packages link, without build dependencies and macros."""
    given = [word for package in packages for word in ("-p", package)]
    tree = cargo("tree", "--locked", *given, "--target", TARGET, "-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")
    return {tuple(re.match(r"(\S+) v(\S+)", line).groups()) for line in tree.splitlines() if line}


def standard_library():
    """Component for Rust's standard library."""
    release = re.search(r"^release: (\S+)", subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout, re.M)[1]
    return {"type": "library", "bom-ref": "std", "name": "std", "version": release, "licenses": [{"expression": "MIT OR Apache-2.0"}],
            "description": "Rust's standard library"}


def checksums():
    """sha256 of each crate's archive, from Cargo.lock."""
    packages = tomllib.loads(Path("Cargo.lock").read_text())["package"]
    return {(package["name"], package["version"]): package.get("checksum") for package in packages}


def expression(package):
    """SPDX expression of a crate's licence; a slash is the older notation for OR."""
    return (package["license"] or "NOASSERTION").replace("/", " OR ").replace("  ", " ")


def licence_files(package):
    """Files with the texts of a crate's licence. Workspace crates, and crates under Apache-2.0 without their own texts, get the
    workspace's."""
    own = own_licence_files(package) if package["source"] else []
    return own or ([Path("LICENSE")] if "Apache-2.0" in expression(package) else [])


def own_licence_files(package):
    folder = Path(package["manifest_path"]).parent
    files = {file for file in folder.rglob("*") if file.is_file() and LICENCE.match(file.name) and file.suffix not in NOT_A_TEXT}
    if package["license_file"]:
        files.add(folder / package["license_file"])
    return sorted(files)


def bill(packages, sums, dependencies):
    def reference(package):
        return f"pkg:cargo/{package['name']}@{package['version']}"

    def component(package):
        sha256 = sums.get((package["name"], package["version"]))
        found = {
            "type": "library",
            "bom-ref": reference(package),
            "name": package["name"],
            "version": package["version"],
            "description": package["description"],
            "hashes": [{"alg": "SHA-256", "content": sha256}] if sha256 else None,
            "licenses": [{"expression": expression(package)}],
            "purl": reference(package) if sha256 else None,
            "externalReferences": [{"type": "vcs", "url": package["repository"]}] if package["repository"] else None,
        }
        return {key: value for key, value in found.items() if value is not None}

    root = next(package for package in packages if package["name"] == "prefold")
    known = {package["id"]: package for package in packages}
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**component(root), "type": "application"}},
        "components": [standard_library(), *(component(package) for package in packages if package is not root)],
        "dependencies": [
            {"ref": reference(package), "dependsOn": sorted({reference(known[id]) for id in dependencies[package["id"]] if id in known})}
            for package in packages
        ],
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    return {**body, "serialNumber": f"urn:uuid:{uuid.UUID(bytes=digest[:16], version=4)}"}


def licences(packages):
    """Each text once, below the crates that it applies to."""
    std = standard_library()
    texts = {Path("LICENSE").read_text().strip(): [f"std {std['version']} (MIT OR Apache-2.0), Rust's standard library"]}
    for package in packages:
        name = f"{package['name']} {package['version']} ({expression(package)})"
        for file in licence_files(package) or [None]:
            text = file.read_text(errors="replace").strip() if file else "No text in the crate; the expression names its licence."
            texts.setdefault(text, []).append(name)
    blocks = [f"{'=' * 100}\n{chr(10).join(sorted(set(names)))}\n{'-' * 100}\n\n{text}\n" for text, names in texts.items()]
    return "Licences of what is linked into prefold: crates, and the C sources that some of them contain.\n\n" + "\n".join(sorted(blocks))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--bom", type=Path, required=True)
    parser.add_argument("--licences", type=Path, required=True)
    args = parser.parse_args()
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET))
    wanted = linked(args.packages)
    packages = [package for package in metadata["packages"] if (package["name"], package["version"]) in wanted]
    assert len(packages) == len(wanted), "a linked crate is not in the metadata"
    packages.sort(key=lambda package: (package["name"], package["version"]))
    dependencies = {node["id"]: [dep["pkg"] for dep in node["deps"]] for node in metadata["resolve"]["nodes"]}
    args.bom.write_text(json.dumps(bill(packages, checksums(), dependencies), indent=1, sort_keys=True) + "\n")
    args.licences.write_text(licences(packages))
    print(f"{len(packages)} crates in {args.bom} and {args.licences}")


if __name__ == "__main__":
    main()

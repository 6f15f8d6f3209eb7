"""Virtual environments of the peers, one for each file in requirements/, made on first use below target/compare/venvs."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = ROOT / "target" / "compare"


def python(name):
    """Path of the interpreter with requirements/NAME.txt installed; recreated when that file has changed."""
    requirements = HERE / "requirements" / f"{name}.txt"
    venv = TARGET / "venvs" / name
    interpreter, stamp = venv / "bin" / "python", venv / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        print(f"installing {requirements.relative_to(ROOT)} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--requirement", requirements], check=True, stdout=sys.stderr)
        stamp.write_text(requirements.read_text())
    return interpreter


def with_wheel(wheel):
    """Path of the interpreter with this wheel and its dependencies installed; recreated when the wheel has changed."""
    venv = TARGET / "venvs" / "prefold"
    interpreter, stamp = venv / "bin" / "python", venv / "wheel.txt"
    built = f"{wheel} {wheel.stat().st_mtime_ns}"
    if not stamp.exists() or stamp.read_text() != built:
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True, stdout=sys.stderr)
        stamp.write_text(built)
    return interpreter

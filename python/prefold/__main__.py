"""The command `prefold`: the same program as the binary, in the extension module."""

from __future__ import annotations

import signal
import sys

from . import _prefold


def main() -> int:
    """Runs the command with the arguments of this process and returns its exit status."""
    # Python's handler would run only after the command ends; the command catches the signal itself where it needs to.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _prefold.main([sys.executable, "-m", "prefold"], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

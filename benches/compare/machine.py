"""Machine, commit and time of a result."""

import datetime
import os
import platform
import re
import subprocess

from venvs import ROOT

# CPU features that decide which kernels an engine chooses.
FLAGS = re.compile(r"^(avx.*|amx.*|fma|f16c)$")


def threads():
    return len(os.sched_getaffinity(0))


def describe():
    """CPU (model name, family, model, flags), cores, memory, system, commit, time and load average."""
    with open("/proc/cpuinfo") as file:
        cpu = dict(re.findall(r"^(.*?)\s*: (.*)$", file.read().split("\n\n")[0], re.MULTILINE))
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {
        "cpu": {"name": cpu["model name"], "family": int(cpu["cpu family"]), "model": int(cpu["model"]),
                "flags": [flag for flag in cpu["flags"].split() if FLAGS.match(flag)]},
        "threads": threads(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "commit": commit,
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "load_average": os.getloadavg(),
    }


def headline(machine):
    cpu = machine["cpu"]
    return f"{machine['threads']} cores of {cpu['name']} (family {cpu['family']} model {cpu['model']}), commit {machine['commit']}"

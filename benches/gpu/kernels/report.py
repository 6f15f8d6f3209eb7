"""The table on stdout, row by row, and the JSON file, which is complete at any time."""

import json
import os
from pathlib import Path

WIDTH = 72


def figures(result):
    """A result's figures as columns."""
    if "us" not in result:
        return f"error {result['worst']:.2f} of what is allowed"
    columns = [f"{result['us']:9.1f} us ({result['us_min']:.1f} - {result['us_max']:.1f})"]
    if "GB/s" in result:
        columns.append(f"{result['GB/s']:6.0f} GB/s, {result['of_copy']:4.0%} of a copy")
    if "TFLOP/s" in result:
        columns.append(f"{result['TFLOP/s']:6.1f} TFLOP/s")
    if "torch_us" in result:
        columns.append(f"torch {result['torch_us']:.1f} us, {result['torch_us'] / result['us']:.2f} x")
    elif "torch_problem" in result:
        columns.append(f"torch: {result['torch_problem']}")
    return "  ".join(columns)


class Report:
    """Results of a run. `out`: the file to write, or None."""

    def __init__(self, out, head):
        self.out = out and Path(out)
        self.content = {**head, "finished": False, "cases": []}
        self.without_torch = None
        if self.out:
            self.out.parent.mkdir(parents=True, exist_ok=True)
        self.write()

    def begin(self, description):
        self.content |= description
        self.write()
        device, modules = description["device"], description["modules"]
        major, minor = device["compute_capability"]
        print(f"{device['name']}, compute capability {major}.{minor}, driver for CUDA {device['driver_cuda_version']}, "
              f"{device['bytes'] / 1e9:.1f} GB; seed {self.content['seed']}")
        for name, module in modules.items():
            if module["override"]:
                print(f"module {name} is replaced by {module['file']} ({module['bytes']} bytes)")
        print(flush=True)

    def add(self, family, case, result):
        self.content["cases"].append({"family": family, "kernel": case.kernel, "variant": case.variant, "timed": case.timed, **result})
        # Written first, so that everything printed is in the file.
        self.write()
        verdict = "ok    " if result["ok"] else "FAILED"
        said = figures(result) if result["ok"] else result["problem"].replace("\n", "\n    ")
        if result.get("without_torch") not in (None, self.without_torch):
            self.without_torch = result["without_torch"]
            print(f"torch is not timed: {self.without_torch}")
        print(f"{verdict} {case.name:{WIDTH}} {said}", flush=True)

    @property
    def failed(self):
        return [case for case in self.content["cases"] if not case["ok"]]

    def end(self, left):
        """`left`: names of the cases that were not run for lack of time."""
        self.content |= {"finished": True, "left": left}
        self.write()
        done = len(self.content["cases"])
        print(f"\n=> {done - len(self.failed)} of {done} cases passed{f'; no time was left for {len(left)}' if left else ''}")
        if left:
            print(f"no time was left for {len(left)} cases, from {left[0]} on")
        for case in self.failed:
            print(f"FAILED {case['kernel']} {case['variant']}")

    def write(self):
        if self.out is None:
            return
        # The rename is atomic, so that the file is complete if the process is killed.
        unfinished = self.out.with_name(self.out.name + ".unfinished")
        unfinished.write_text(json.dumps(self.content, indent=1) + "\n")
        os.replace(unfinished, self.out)

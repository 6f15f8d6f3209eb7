"""prefold as a contender: the real binary."""

from server import Server


class Prefold(Server):
    product, ready = "prefold", "/ready"

    def __init__(self, binary, model, dtype):
        super().__init__(f"prefold {dtype}", dtype, f"prefold-{dtype}")
        self.binary, self.model = binary, model

    def command(self):
        return [self.binary, self.model, "--hostname", "127.0.0.1", "--port", self.port, "--dtype", self.dtype, "--max-client-batch-size", 1024]


class Pinned(Prefold):
    """prefold on some cores, whose number its affinity makes its number of threads."""

    def __init__(self, binary, model, name, cores):
        super().__init__(binary, model, "auto")
        self.cores = ",".join(map(str, cores))
        self.name, self.label = f"{name}, cores {self.cores}", f"pinned-{model.name}-{self.cores}"

    def command(self):
        return ["taskset", "--cpu-list", self.cores, *super().command()]

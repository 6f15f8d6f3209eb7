"""prefold's engine in the caller's process: `prefold.Model` of the wheel."""

import itertools
import threading
import time

import prefold


class Engine:
    def __init__(self, model, dtype, threads, streams):
        self.model = prefold.Model(model, dtype=dtype)
        self.versions = {"prefold": prefold.__version__, "kernels": self.model.info["kernels"]}
        self.dtype = self.model.info["dtype"]
        self.limit = self.model.info["max_input_length"]

    def embed(self, texts):
        return self.model.embed(texts)

    def tokens(self, texts):
        return sum(min(len(tokens), self.limit) for tokens in self.model.tokenize(texts))

    def calls(self, texts):
        """Seconds of `embed` and of its forward pass, for each text alone."""
        started, whole, forwards = [], [], []
        embedding = self.model._embedding

        def noted(*options):
            start, size = embedding(*options)

            def begin(block):
                started.append(start(block))
                return started[-1]

            return begin, size

        self.model._embedding = noted
        try:
            for text in texts:
                begun = time.perf_counter()
                self.model.embed(text)
                whole.append(time.perf_counter() - begun)
                forwards.append(started.pop().inference_s)
        finally:
            del self.model._embedding
        return {"calls": whole, "forwards": forwards}

    def calls_at_once(self, texts, clients, seconds):
        """Calls of one text per second, by `clients` threads at once."""
        counts, end = [0] * clients, time.perf_counter() + seconds

        def ask(client):
            for text in itertools.cycle(texts[client:] + texts[:client]):
                if time.perf_counter() > end:
                    return
                self.model.embed(text)
                counts[client] += 1

        threads = [threading.Thread(target=ask, args=(client,)) for client in range(clients)]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"per_s": sum(counts) / (time.perf_counter() - begun)}

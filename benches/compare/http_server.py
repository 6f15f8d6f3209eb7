"""A minimal HTTP server for Python engines: keep-alive HTTP/1.1 on plain sockets, one thread per connection.

It answers every POST as OpenAI's /v1/embeddings with base64 vectors. Without `gather` each connection's thread computes its own request,
at most `streams` at once. With `gather` one thread computes all waiting requests as one batch, as soon as it is free, without any delay.
"""

import base64
import json
import queue
import socket
import threading


def start(embed, gather, streams):
    """Serves `embed` (texts to a NumPy array of vectors) in the background; returns the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    compute = gathered(embed) if gather else limited(embed, streams)
    in_background(accept, listener, compute)
    return listener.getsockname()[1]


def in_background(function, *arguments):
    threading.Thread(target=function, args=arguments, daemon=True).start()


def limited(embed, streams):
    slots = threading.BoundedSemaphore(streams)

    def compute(texts):
        with slots:
            return embed(texts)

    return compute


def gathered(embed):
    waiting = queue.SimpleQueue()

    def work():
        while True:
            requests = [waiting.get()]
            while not waiting.empty():
                requests.append(waiting.get())
            vectors = embed([text for texts, _ in requests for text in texts])
            done = 0
            for texts, answer in requests:
                answer.put(vectors[done : done + len(texts)])
                done += len(texts)

    def compute(texts):
        answer = queue.SimpleQueue()
        waiting.put((texts, answer))
        return answer.get()

    in_background(work)
    return compute


def accept(listener, compute):
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        in_background(converse, connection, compute)


def converse(connection, compute):
    received = b""
    with connection:
        while True:
            while (end := received.find(b"\r\n\r\n")) < 0:
                if not (part := connection.recv(65536)):
                    return
                received += part
            length = content_length(received[:end])
            while len(received) < end + 4 + length:
                if not (part := connection.recv(65536)):
                    return
                received += part
            body, received = received[end + 4 : end + 4 + length], received[end + 4 + length :]
            connection.sendall(response(compute, body))


def content_length(head):
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def response(compute, body):
    if not body:
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
    texts = json.loads(body)["input"]
    vectors = compute([texts] if isinstance(texts, str) else texts).astype("<f4", copy=False)
    data = ",".join(
        f'{{"object":"embedding","index":{index},"embedding":"{base64.b64encode(vector.tobytes()).decode()}"}}'
        for index, vector in enumerate(vectors)
    )
    answer = f'{{"object":"list","data":[{data}],"model":"peer"}}'.encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer)

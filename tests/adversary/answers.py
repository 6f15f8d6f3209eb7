"""Compares what a connection received with what it may receive."""

import json

import http2
import marks
from raw import Malformed, Raw

# Bytes that the sockets of both sides always buffer: a client that sent more may lose its answer to the connection's reset.
SURE = 60_000


class Ended(Exception):
    """The bytes end within an answer."""


class Recorded(Raw):
    """The strict parser of tests/e2e/raw.py over received bytes."""

    def __init__(self, data):
        self.received = bytearray(data)

    def more(self):
        raise Ended


def parsed(data):
    """The complete answers in the bytes, without 1xx, and whether nothing is left over."""
    recorded, found = Recorded(data), []
    try:
        while recorded.received:
            answer = recorded.answer(interim=True)
            if answer.status >= 200:
                found.append(answer)
    except Ended:
        return found, False
    return found, True


def parsed_frames(data):
    """The complete answers in the frames, and whether nothing is left over."""
    received = http2.Received()
    received.take(data)
    return list(received.answers.values()), received.is_whole


def error_fault(answer):
    """The fault of an error's body, or None. Errors of the HTTP parser have no body."""
    if not answer.body:
        return None
    try:
        body = json.loads(answer.body)
    except ValueError:
        return f"{answer.status} with a body that is not JSON: {answer.body[:200]!r}"
    if not isinstance(body, dict) or not body.get("error"):
        return f"{answer.status} without a message: {answer.body[:200]!r}"
    long = marks.uncut(body)
    if long is not None:
        return f"{answer.status} whose message repeats {len(long)} characters of the client's text: {long[:300]!r}"
    if (answer.status in (429, 503)) != ("retry-after" in answer.headers):
        return f"{answer.status} and Retry-After do not go together: {answer.headers}"
    return None


def foreign(one, data):
    """Canaries of other clients in the bytes."""
    return {mark.decode() for mark in marks.ANY.findall(bytes(data))} - one.marks


def faults(one, heard):
    """(rule, detail) of the answers of one play."""
    others = foreign(one, heard.data)
    if others:
        yield "another's text", f"an answer has {sorted(others)[:3]}: {bytes(heard.data[:300])!r}"
    try:
        found, is_whole = (parsed_frames if one.is_http2 else parsed)(bytes(heard.data))
    except Malformed as error:
        yield "protocol", f"{error}"[:400]
        return
    statuses = [answer.status for answer in found]
    if any(status not in one.allowed for status in statuses):
        wrong = next(answer for answer in found if answer.status not in one.allowed)
        yield "status", f"{wrong.status}, allowed are {sorted(one.allowed)}: {wrong.body[:300]!r}"
    for answer in found:
        if answer.status >= 400 and (fault := error_fault(answer)):
            yield "message", fault
    if one.most is not None and len(found) > one.most:
        yield "protocol", f"{len(found)} answers where {one.most} may come: {statuses}"
    sent = sum(len(step.data) for step in one.steps if hasattr(step, "data"))
    is_heard = heard.is_whole and heard.is_closed and is_whole and not heard.failure and heard.is_sent and sent < SURE
    if is_heard and len(found) < one.least and not set(statuses) & {400, 408, 413, 429, 431}:
        yield "unanswered", f"{len(found)} answers and then the end, {one.least} were asked for: {statuses}"
    if not heard.is_closed and one.least > len(found) and heard.is_sent and not heard.failure and heard.is_whole:
        yield "unanswered", f"{len(found)} answers within the time, {one.least} were asked for: {statuses}"
    if not is_whole and heard.is_closed and heard.is_whole and not (heard.is_reset or one.is_slow or heard.data.endswith(b"\r\n\r\n")):
        yield "protocol", f"an answer that ends early: {bytes(heard.data[-200:])!r}"
    if one.cut_within and not heard.is_closed:
        yield "kept", f"the server keeps the connection for more than {one.cut_within} s"
    if one.most_bytes and heard.count > one.most_bytes:
        yield "kept", f"the server went on until {heard.count} bytes were read, more than {one.most_bytes}"

"""The extension module as a file."""

import struct
from importlib.util import find_spec

PT_DYNAMIC, DT_FLAGS, DF_STATIC_TLS = 2, 30, 0x10


def test_it_takes_no_static_tls():
    """glibc has little thread-local memory for libraries that are opened late; libgomp of PyTorch and scikit-learn needs it."""
    file = open(find_spec("prefold._prefold").origin, "rb").read()
    (headers,), (size, count) = struct.unpack_from("<Q", file, 32), struct.unpack_from("<HH", file, 54)
    segments = [struct.unpack_from("<IIQQQQ", file, headers + size * at) for at in range(count)]
    begin, length = next((offset, bytes) for kind, _, offset, _, _, bytes in segments if kind == PT_DYNAMIC)
    entries = dict(struct.iter_unpack("<QQ", file[begin:begin + length]))
    assert entries and not entries.get(DT_FLAGS, 0) & DF_STATIC_TLS

"""Withholds AMX from this process and its children: a system call filter refuses the permission for tile data, which a process must
request from Linux (arch_prctl, ARCH_REQ_XCOMP_PERM). prefold, oneDNN, OpenVINO and ONNX Runtime all request it, and without it use their
next best kernels.

Variables such as ONEDNN_MAX_CPU_ISA reach only oneDNN: OpenVINO's own kernels read theirs in debug builds alone, ONNX Runtime has none.
"""

import ctypes

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, EPERM = 158, 0x1023, 1
# Classic BPF: operations, and offsets in struct seccomp_data.
LOAD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, ARGUMENT = 0, 16
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("if_true", ctypes.c_uint8), ("if_false", ctypes.c_uint8), ("value", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(Instruction))]


def withhold():
    instructions = [
        Instruction(LOAD, 0, 0, NUMBER),
        Instruction(JUMP_EQUAL, 0, 3, ARCH_PRCTL),
        Instruction(LOAD, 0, 0, ARGUMENT),
        Instruction(JUMP_EQUAL, 0, 1, ARCH_REQ_XCOMP_PERM),
        Instruction(RETURN, 0, 0, ERRNO | EPERM),
        Instruction(RETURN, 0, 0, ALLOW),
    ]
    program = Program(len(instructions), (Instruction * len(instructions))(*instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "AMX cannot be withheld")

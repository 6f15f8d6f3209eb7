"""The CUDA driver API through ctypes: every call's result is checked, and an error names the call.

Also runs on the simulated device (kernels/cuda/simulated), whose library has the same name.
"""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

LIBRARY = "libcuda.so.1"
STREAM_NON_BLOCKING = 1
# CUdevice_attribute
MULTIPROCESSORS, L2_BYTES, CAPABILITY_MAJOR, CAPABILITY_MINOR = 16, 38, 75, 76
# CUfunction_attribute
MAX_DYNAMIC_SHARED_BYTES = 8
# Dynamic shared memory that a block has without a request.
SHARED_BYTES_UNASKED = 48 << 10
INVALID_VALUE, OUT_OF_MEMORY = 1, 2
# Errors of a call that leave the context usable: a wrong argument, no memory, an invalid module or one for another device, an
# unknown name, too many resources for a launch. After any other error the process must end.
HARMLESS = {INVALID_VALUE, OUT_OF_MEMORY, 200, 209, 218, 222, 301, 400, 500, 701}

# Each call's symbols, the newest version first (as named by cuda.h of CUDA 13), and its arguments.
CALLS = {
    "cuInit": (["cuInit"], [c_uint]),
    "cuDriverGetVersion": (["cuDriverGetVersion"], [POINTER(c_int)]),
    "cuDeviceGet": (["cuDeviceGet"], [POINTER(c_int), c_int]),
    "cuDeviceGetName": (["cuDeviceGetName"], [c_char_p, c_int, c_int]),
    "cuDeviceGetAttribute": (["cuDeviceGetAttribute"], [POINTER(c_int), c_int, c_int]),
    "cuDevicePrimaryCtxRetain": (["cuDevicePrimaryCtxRetain"], [POINTER(c_void_p), c_int]),
    "cuCtxSetCurrent": (["cuCtxSetCurrent"], [c_void_p]),
    "cuMemGetInfo": (["cuMemGetInfo_v2"], [POINTER(c_size_t), POINTER(c_size_t)]),
    "cuStreamCreate": (["cuStreamCreate"], [POINTER(c_void_p), c_uint]),
    "cuStreamSynchronize": (["cuStreamSynchronize"], [c_void_p]),
    "cuEventCreate": (["cuEventCreate"], [POINTER(c_void_p), c_uint]),
    "cuEventRecord": (["cuEventRecord"], [c_void_p, c_void_p]),
    "cuEventSynchronize": (["cuEventSynchronize"], [c_void_p]),
    "cuEventElapsedTime": (["cuEventElapsedTime_v2", "cuEventElapsedTime"], [POINTER(c_float), c_void_p, c_void_p]),
    "cuMemAlloc": (["cuMemAlloc_v2"], [POINTER(c_uint64), c_size_t]),
    "cuMemFree": (["cuMemFree_v2"], [c_uint64]),
    "cuMemcpyHtoDAsync": (["cuMemcpyHtoDAsync_v2"], [c_uint64, c_void_p, c_size_t, c_void_p]),
    "cuMemcpyDtoHAsync": (["cuMemcpyDtoHAsync_v2"], [c_void_p, c_uint64, c_size_t, c_void_p]),
    "cuMemcpyDtoDAsync": (["cuMemcpyDtoDAsync_v2"], [c_uint64, c_uint64, c_size_t, c_void_p]),
    "cuMemsetD8Async": (["cuMemsetD8Async"], [c_uint64, c_ubyte, c_size_t, c_void_p]),
    "cuModuleLoadData": (["cuModuleLoadData"], [POINTER(c_void_p), c_char_p]),
    "cuModuleGetFunction": (["cuModuleGetFunction"], [POINTER(c_void_p), c_void_p, c_char_p]),
    "cuFuncSetAttribute": (["cuFuncSetAttribute"], [c_void_p, c_int, c_int]),
    "cuFuncLoad": (["cuFuncLoad"], [c_void_p]),
    "cuFuncGetParamInfo": (["cuFuncGetParamInfo"], [c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t)]),
    "cuLaunchKernel": (["cuLaunchKernel"], [c_void_p] + 7 * [c_uint] + [c_void_p, POINTER(c_void_p), c_void_p]),
}
# Calls newer than the oldest driver that loads the kernels (CUDA 12.4); without them a check is omitted.
OPTIONAL = {"cuFuncLoad", "cuFuncGetParamInfo"}


class CudaError(Exception):
    """A call that the driver refused, or an error of earlier work on the device."""

    def __init__(self, call, code, name, text):
        super().__init__(f"{call}: {name} ({code}): {text}")
        self.call, self.code = call, code

    @property
    def is_lasting(self):
        """Whether the context is lost, so that this process cannot use the device any more."""
        return self.code not in HARMLESS


class Driver:
    """The driver's library. `cuXxx(...)` calls it and raises CudaError; `has("cuXxx")` says whether an optional call exists."""

    def __init__(self, library=LIBRARY):
        self.library = ctypes.CDLL(library)
        self.functions = {name: self._find(name) for name in CALLS}
        missing = [name for name, function in self.functions.items() if function is None and name not in OPTIONAL]
        if missing:
            raise OSError(f"{library} lacks {', '.join(missing)}: the driver is too old")

    def _find(self, name):
        symbols, arguments = CALLS[name]
        for symbol in symbols:
            if (function := getattr(self.library, symbol, None)) is not None:
                function.argtypes, function.restype = arguments, c_int
                return function
        return None

    def has(self, name):
        return self.functions[name] is not None

    def __getattr__(self, name):
        if name not in CALLS:
            raise AttributeError(name)
        function = self.functions[name]

        def call(*arguments):
            code = function(*arguments)
            if code:
                raise self.error(name, code)

        # Cached for the next use.
        setattr(self, name, call)
        return call

    def error(self, call, code):
        said = []
        for question in ("cuGetErrorName", "cuGetErrorString"):
            answer, function = c_char_p(), getattr(self.library, question)
            function.argtypes, function.restype = [c_int, POINTER(c_char_p)], c_int
            said.append(answer.value.decode() if function(code, byref(answer)) == 0 and answer.value else "unknown")
        return CudaError(call, code, *said)


class Device:
    """A device with its primary context, which torch uses too, and its own stream."""

    def __init__(self, ordinal=0):
        self.driver = driver = Driver()
        driver.cuInit(0)
        handle = c_int()
        driver.cuDeviceGet(byref(handle), ordinal)
        self.handle = handle.value
        context, self.stream = c_void_p(), c_void_p()
        driver.cuDevicePrimaryCtxRetain(byref(context), self.handle)
        driver.cuCtxSetCurrent(context)
        driver.cuStreamCreate(byref(self.stream), STREAM_NON_BLOCKING)

    def attribute(self, attribute):
        value = c_int()
        self.driver.cuDeviceGetAttribute(byref(value), attribute, self.handle)
        return value.value

    def memory(self):
        """Free and total bytes."""
        free, total = c_size_t(), c_size_t()
        self.driver.cuMemGetInfo(byref(free), byref(total))
        return free.value, total.value

    def description(self):
        name, version = ctypes.create_string_buffer(256), c_int()
        self.driver.cuDeviceGetName(name, len(name), self.handle)
        self.driver.cuDriverGetVersion(byref(version))
        free, total = self.memory()
        return {
            "name": name.value.decode(),
            "compute_capability": [self.attribute(CAPABILITY_MAJOR), self.attribute(CAPABILITY_MINOR)],
            "multiprocessors": self.attribute(MULTIPROCESSORS),
            "l2_bytes": self.attribute(L2_BYTES),
            "bytes": total,
            "free_bytes": free,
            "driver_cuda_version": f"{version.value // 1000}.{version.value % 1000 // 10}",
        }

    def synchronize(self):
        self.driver.cuStreamSynchronize(self.stream)

    def allocate(self, size):
        address = c_uint64()
        self.driver.cuMemAlloc(byref(address), size)
        return address.value

    def free(self, address):
        self.driver.cuMemFree(address)

    def upload(self, address, array):
        """Copies an array and waits."""
        self.driver.cuMemcpyHtoDAsync(address, array.ctypes.data, array.nbytes, self.stream)
        self.synchronize()

    def download(self, array, address):
        """Fills an array and waits."""
        self.driver.cuMemcpyDtoHAsync(array.ctypes.data, address, array.nbytes, self.stream)
        self.synchronize()

    def copy(self, to, source, size, stream=None):
        """Queues a copy within the device, on its own stream or another; handle 0 is the default stream."""
        self.driver.cuMemcpyDtoDAsync(to, source, size, self.stream if stream is None else stream)

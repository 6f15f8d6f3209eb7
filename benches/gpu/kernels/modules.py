"""The compiled kernels: the file of each module, and its functions."""

import ctypes
import hashlib
import os
import re
from ctypes import byref, c_char_p, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path

import driver as cuda
from launch import Pointer, Structure

# The files of kernels/cuda, without the extension.
NAMES = ("activation", "attention", "attention_plain", "experts", "norm", "rope", "rows")
VARIABLE = "PREFOLD_CUDA_MODULES"
SUFFIXES = ("cubin", "fatbin")


class ModuleError(Exception):
    """A module is missing, or the driver refuses it."""


def in_directory(directory, name):
    """The file of a module in a directory, or None."""
    files = (Path(directory) / f"{name}.{suffix}" for suffix in SUFFIXES)
    return next((file for file in files if file.is_file()), None)


@dataclass(frozen=True)
class Image:
    """A module's file, and whether it replaces the directory's own."""

    name: str
    path: Path
    is_override: bool

    def description(self):
        content = self.path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        return {"file": str(self.path), "bytes": len(content), "sha256": digest, "override": self.is_override}


def find(directory):
    """The images of all modules by name, from PREFOLD_CUDA_MODULES where it has a file, else from the directory."""
    other = os.environ.get(VARIABLE)
    if other and not Path(other).is_dir():
        raise ModuleError(f"{VARIABLE}={other} is not a directory")
    images = {}
    for name in NAMES:
        override = in_directory(other, name) if other else None
        if (path := override or (in_directory(directory, name) if directory else None)) is None:
            raise ModuleError(f"there is no {name}.cubin or {name}.fatbin in {directory}; benches/gpu/cubins.sh compiles them")
        images[name] = Image(name, path, override is not None)
    return images


def kernels_of(path):
    """The names of a cubin's kernels, from its code sections; None for a fatbin, whose images are compressed."""
    content = path.read_bytes()
    if content[:4] != b"\x7fELF":
        return None
    return {name.decode() for name in re.findall(rb"\x00\.text\.(\w+)(?=\x00)", content)}


class Module:
    """A loaded image."""

    def __init__(self, device, image):
        self.driver, self.image, self.functions = device.driver, image, {}
        self.handle = c_void_p()
        # PTX text must end with a zero byte.
        self.content = image.path.read_bytes() + b"\0"
        try:
            self.driver.cuModuleLoadData(byref(self.handle), c_char_p(self.content))
        except cuda.CudaError as error:
            raise ModuleError(f"module {image.name} from {image.path}: {error}") from error

    def function(self, name):
        if name not in self.functions:
            handle = c_void_p()
            try:
                self.driver.cuModuleGetFunction(byref(handle), self.handle, name.encode())
            except cuda.CudaError as error:
                raise ModuleError(f"{name} is not in module {self.image.name} from {self.image.path}: {error}") from error
            if self.driver.has("cuFuncLoad"):
                self.driver.cuFuncLoad(handle)
            self.functions[name] = handle
        return self.functions[name]


class Modules:
    """All modules, each loaded at the first use of one of its kernels, so that a broken one fails alone."""

    def __init__(self, device, images):
        self.device, self.images, self.loaded = device, images, {}

    def function(self, module, kernel):
        if module not in self.loaded:
            self.loaded[module] = Module(self.device, self.images[module])
        return self.loaded[module].function(kernel)


class Launcher:
    """A launch with its arguments in place; each call queues it on the device's stream."""

    def __init__(self, device, function, launch, arguments, addresses):
        self.driver = device.driver
        values = [self._value(argument, addresses) for argument in arguments]
        self._check_parameters(function, launch.kernel, values)
        if launch.shared_bytes > cuda.SHARED_BYTES_UNASKED:
            self.driver.cuFuncSetAttribute(function, cuda.MAX_DYNAMIC_SHARED_BYTES, launch.shared_bytes)
        # Kept: the driver reads them at each launch.
        self.values = values
        self.pointers = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self.call = (function, launch.blocks, 1, 1, launch.threads, 1, 1, launch.shared_bytes, device.stream, self.pointers, None)

    def __call__(self):
        self.driver.cuLaunchKernel(*self.call)

    @staticmethod
    def _value(argument, addresses):
        def address(value):
            return addresses[value.buffer] + value.offset if isinstance(value, Pointer) else value

        if isinstance(argument, Structure):
            return argument.type(**{name: address(value) for name, value in argument.fields.items()})
        return ctypes.c_uint64(address(argument)) if isinstance(argument, Pointer) else argument

    def _check_parameters(self, function, kernel, values):
        """Compares the arguments' sizes with the kernel's, so that a variant with another signature is refused."""
        if not self.driver.has("cuFuncGetParamInfo"):
            return
        sizes = []
        while True:
            offset, size = c_size_t(), c_size_t()
            try:
                self.driver.cuFuncGetParamInfo(function, len(sizes), byref(offset), byref(size))
            except cuda.CudaError as error:
                if error.code == cuda.INVALID_VALUE:
                    break
                return # This driver cannot report them.
            sizes.append(size.value)
        given = [ctypes.sizeof(value) for value in values]
        if sizes != given:
            raise ModuleError(f"{kernel} takes arguments of {sizes} bytes, not {given}")

"""A KFD and DRM client with no ROCm in between: what a program would send to the kernel, from Python.

It runs in a process that has libkfdemu.so preloaded. Structures: linux/kfd_ioctl.h and libdrm/amdgpu_drm.h.
"""

import array
import ctypes
import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import time

VRAM, GTT = 1, 2
PUBLIC, EXECUTABLE, WRITABLE = 1 << 29, 1 << 30, 1 << 31
USER_FLAGS = VRAM | PUBLIC | WRITABLE
FIRST_GPU_ID = 0x1001
MIB = 1 << 20


def kfd_command(number, size, direction=3):
    return direction << 30 | size << 16 | ord("K") << 8 | number


def drm_command(number, size, direction=3):
    return direction << 30 | size << 16 | ord("d") << 8 | number


def call(fd, command, layout, *values):
    """One ioctl on a structure; the structure's fields as the driver left them."""
    args = bytearray(struct.pack(layout, *values))
    fcntl.ioctl(fd, command, args, True)
    return struct.unpack(layout, args)


class Kfd:
    def __init__(self):
        self.fd = os.open("/dev/kfd", os.O_RDWR | os.O_CLOEXEC)

    def allocate(self, size, flags=USER_FLAGS, card=0, address=0):
        fields = call(self.fd, kfd_command(0x16, 40), "QQQQII", address, size, 0, 0, FIRST_GPU_ID + card, flags)
        return fields[2]

    def free(self, handle):
        call(self.fd, kfd_command(0x17, 8, 1), "Q", handle)

    def available(self, card=0):
        return call(self.fd, kfd_command(0x23, 16), "QII", 0, FIRST_GPU_ID + card, 0)[0]

    def export(self, handle):
        return call(self.fd, kfd_command(0x24, 16), "QII", handle, 0, 0)[2]

    def import_(self, dmabuf, card=0, address=0):
        return call(self.fd, kfd_command(0x1D, 24), "QQII", address, 0, FIRST_GPU_ID + card, dmabuf)[1]

    def create_queue(self, priority=7, eop=0, save=0, card=0):
        self.ring = ctypes.create_string_buffer(b"\x01\x00" * 2048, 8192)
        self.pointers = (ctypes.c_uint64 * 2)(0, 0)
        ring, pointers = ctypes.addressof(self.ring), ctypes.addressof(self.pointers)
        fields = call(self.fd, kfd_command(0x02, 88), "QQQQIIIIIIQQQII", ring, pointers, pointers + 8, 0,
                      4096, FIRST_GPU_ID + card, 2, 100, priority, 0, eop, 4096 if eop else 0, save,
                      MIB if save else 0, 4096)
        return fields[9]

    def update_queue(self, queue, priority):
        call(self.fd, kfd_command(0x07, 24, 1), "QIIII", 0, queue, 4096, 100, priority)

    def set_cu_mask(self, queue, words):
        mask = (ctypes.c_uint32 * len(words))(*words)
        call(self.fd, kfd_command(0x1A, 16, 1), "IIQ", queue, 32 * len(words), ctypes.addressof(mask))

    def prefetch(self, address, size, gpu_id):
        call(self.fd, kfd_command(0x20, 24), "QQIIII", address, size, 0, 1, 1, gpu_id)


class Drm:
    def __init__(self, minor=128, fd=None):
        """minor: from 128 on a render node, below a primary one. fd: a file that is open."""
        node = f"card{minor}" if minor < 128 else f"renderD{minor}"
        self.fd = os.open(f"/dev/dri/{node}", os.O_RDWR | os.O_CLOEXEC) if fd is None else fd

    def create(self, size, domain=4):
        args = bytearray(struct.pack("QQQQ", size, 4096, domain, 0))
        fcntl.ioctl(self.fd, drm_command(0x40, 32), args, True)
        return struct.unpack_from("I", args)[0]

    def close_handle(self, handle):
        call(self.fd, drm_command(0x09, 8, 1), "II", handle, 0)

    def import_(self, dmabuf):
        return call(self.fd, drm_command(0x2E, 12), "IIi", 0, 0, dmabuf)[0]

    def export(self, handle):
        return call(self.fd, drm_command(0x2D, 12), "IIi", handle, 0, 0)[2]


def error_of(action, *args):
    """The name of the error that ACTION fails with."""
    try:
        action(*args)
    except OSError as failure:
        return errno.errorcode[failure.errno]
    return "no error"


def wait_for_line():
    """Blocks until the test writes a line."""
    sys.stdin.readline()


def say(*words):
    print(*words, flush=True)

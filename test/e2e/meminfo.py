"""What a Python program sees: free and total of hipMemGetInfo, and what becomes of a request for twice the total."""
import ctypes
import sys

for name in ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"):
    try:
        hip = ctypes.CDLL(name)
        break
    except OSError:
        hip = None
if hip is None:
    sys.exit("no libamdhip64")
free, total, memory = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_void_p()
assert hip.hipMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
print(f"hipMemGetInfo: free {free.value >> 20} MiB of {total.value >> 20} MiB")
print(f"hipMalloc of twice as much: {hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(2 * total.value))}")

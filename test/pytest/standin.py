"""Builds the stand-in runtimes of softgpu/hip once and runs clients of theirs: C programs, and Python ones through ctypes."""
import fcntl
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "build" / "all" / "softgpu" / "hip"
RELEASES = {52: 5, 57: 5, 64: 6, 72: 7}  # and the SONAME's number

# A client script begins with the runtime loaded, and these words.
PRELUDE = """
import ctypes, os, sys, time, signal
from ctypes import byref, c_int, c_size_t, c_void_p
hip = ctypes.CDLL(os.environ["STANDIN"])
hip.hipFree.argtypes = [c_void_p]
hip.hipMalloc.argtypes = [c_void_p, c_size_t]
MIB, GIB = 1 << 20, 1 << 30
def malloc(size):
    p = c_void_p()
    error = hip.hipMalloc(byref(p), size)
    return error, p
def mem():
    free, total = c_size_t(), c_size_t()
    assert hip.hipMemGetInfo(byref(free), byref(total)) == 0
    return free.value, total.value
def count():
    n = c_int(-1)
    error = hip.hipGetDeviceCount(byref(n))
    return error, n.value
def say(*words):
    print(*words, flush=True)
"""


def build():
    """Once for all workers; make decides what is out of date."""
    folder, locks = TOP / "build" / "all", TOP / "build" / "amvgpu"
    locks.mkdir(parents=True, exist_ok=True)
    with open(locks / ".all.lock", "w") as lock:  # as test/container/tool.py does
        fcntl.flock(lock, fcntl.LOCK_EX)
        configure = [] if (folder / "Makefile").exists() else [["cmake", "-S", TOP, "-B", folder, "-G", "Unix Makefiles"]]
        for command in (*configure, ["cmake", "--build", folder]):
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
    return BUILD


def library(release):
    return BUILD / f"libamdhip64.so.{RELEASES[release]}"


def environment(release=72, **settings):
    """The environment without anybody's device settings; SOFTGPU_ is put before names in capitals that stand alone."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SOFTGPU_", "HIP_", "ROCR_", "HSA_", "CUDA_", "LD_"))}
    env.update(SOFTGPU_RELEASE=str(release), STANDIN=str(library(release)), TEST_RELEASE=str(release))
    for name, value in settings.items():
        plain = "_VISIBLE_" in name or name.startswith("HSA_")
        env[name if plain else "SOFTGPU_" + name] = str(value)
    return env


def command(script):
    return [sys.executable, "-c", PRELUDE + textwrap.dedent(script)]


def run(script, release=72, **settings):
    """What the client says, as a list of lines."""
    done = subprocess.run(command(script), env=environment(release, **settings), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def start(script, release=72, **settings):
    return subprocess.Popen(command(script), env=environment(release, **settings), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def oracle(state):
    done = subprocess.run([BUILD / "oracle", state, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def held(state, device=0):
    return oracle(state)["devices"][str(device)]["held"]

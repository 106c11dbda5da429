"""What the tests of softgpu/kfd share: the library, the runtimes, a run with its oracle and log."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "test" / "container"))
from tool import build_emulated_driver  # noqa: E402

KFD = TOP / "softgpu" / "kfd"
BUILD = TOP / "build" / "softgpu-kfd"
PROGRAMS = TOP / "build" / "test-softgpu-kfd"
MIB = 1 << 20
RELEASES = ["7.2", "6.4", "5.7", "5.2"]


@pytest.fixture(scope="session")
def library():
    build_emulated_driver()
    return BUILD / "libkfdemu.so"


@pytest.fixture(scope="session", params=RELEASES)
def rocm(request):
    unpack(request.param)
    return request.param


def unpack(release):
    """The runtime's folder; unpacked once, then cached."""
    done = subprocess.run([TOP / "softgpu" / "rocm", release], check=True, capture_output=True, text=True)
    return pathlib.Path(done.stdout.strip())


def build(name, *flags, target=None):
    """A C program of this folder; several workers may build it while another one runs it."""
    target = PROGRAMS / (target or name)
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    source = HERE / f"{name.split('.')[0]}.c"
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", source, "-o", scratch, *flags], check=True)
    scratch.rename(target)
    return target


@functools.cache
def build_hip(name, release):
    """The same against a release's own headers and library."""
    root = unpack(release)
    return build(name, "-Wno-deprecated-declarations", "-Wno-missing-field-initializers", "-Wno-unused-result",
                 "-D__HIP_PLATFORM_AMD__", f"-I{root}/usr/include", f"{root}/usr/lib/x86_64-linux-gnu/libamdhip64.so",
                 "-Wl,--allow-shlib-undefined", target=f"{name}-{release}")


class Run:
    """One run: processes that share emulated cards, an oracle and a log."""

    def __init__(self, folder, library):
        self.folder, self.library = folder, library
        self.oracle_file, self.log_file = folder / "oracle", folder / "log"
        self.started = []

    def settings(self, **settings):
        names = {f"KFDEMU_{name}": str(value) for name, value in settings.items()}
        return {"KFDEMU_ORACLE": str(self.oracle_file), "KFDEMU_LOG": str(self.log_file), "TMPDIR": str(self.folder),
                **names}

    def client(self, script, **settings):
        """Starts a Python program over the emulated driver alone; see kfd_client.py."""
        text = "from kfd_client import *\n" + textwrap.dedent(script)
        env = {**os.environ, **self.settings(**settings), "LD_PRELOAD": str(self.library),
               "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
        return self._start([sys.executable, "-c", text], env)

    def hip(self, release, program, *args, options=(), env=None, **settings):
        """Starts PROGRAM on a ROCm runtime over the emulated driver."""
        command = [KFD / "run", "--rocm", release, *options, "--", program, *args]
        return self._start(command, {**os.environ, **self.settings(**settings), **(env or {})})

    def _start(self, command, env):
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        return process

    def oracle(self):
        done = subprocess.run([KFD / "oracle", self.oracle_file, "--json"], check=True, capture_output=True, text=True)
        answer = json.loads(done.stdout)
        assert answer["valid"], "the oracle's gauges are not the sums of its extents"
        return answer

    def used(self, card=0):
        return self.oracle()["cards"][card]["used"]

    def process(self, pid):
        return next(row for row in self.oracle()["processes"] if row["pid"] == pid)

    def kinds(self, pid, card=0, which="now"):
        kinds = self.process(pid)["cards"][card]["kinds"]
        return {name: gauge[which] for name, gauge in kinds.items() if gauge[which]}

    def log(self, word=""):
        text = self.log_file.read_text() if self.log_file.exists() else ""
        return [line for line in text.splitlines() if word in line]


@pytest.fixture
def run(tmp_path, library):
    run = Run(tmp_path, library)
    yield run
    for process in run.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process, timeout=60):
    """Standard output of a program that must succeed."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, f"exit status {process.returncode}\n{out}\n{err}"
    return out


def line(process):
    """The next line that a running program says."""
    text = process.stdout.readline()
    assert text, f"the program ended: {process.stderr.read()}"
    return text.strip()


def answer(process):
    """Lets a program go on that waits for a line."""
    process.stdin.write("\n")
    process.stdin.flush()

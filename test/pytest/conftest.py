"""What every test needs: where things are built, a HIP program that does as it is told, and the books of a pod."""
import json
import os
import pathlib
import signal
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LIBRARY = ROOT / "build-hip" / "libamvgpu.so"
STANDIN = BUILD / "all" / "softgpu" / "hip"
AMVGPU = BUILD / "all" / "tools" / "amvgpu" / "amvgpu"
GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10

# ./check --fast goes without what fetches the most, searches for minutes, or runs under a sanitizer or a fuzzer.
LONG = {"test_card_accounting", "test_card_admission", "test_card_opencl", "test_children_guard", "test_children_holes",
        "test_fuzz_inputs", "test_headers", "test_ledger_fuzz", "test_ledger_model", "test_real_limits", "test_real_matrix",
        "test_real_queues", "test_rocm", "test_route_units", "test_standin_symbols", "test_standin_units"}

OURS = ("HIP_", "HSA_", "AMD_TASK", "LIBHIP", "ROCR_", "ROC_", "CUDA_", "SOFTGPU_", "LD_AUDIT", "LD_PRELOAD", "KFDEMU")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """What takes long comes first: the short ones fill the time in which the last of them end."""
    for item in items:
        if item.module.__name__ in LONG or item.get_closest_marker("sanitizer"):
            item.add_marker("slow")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def clean_environment(**extra):
    """This process's environment without anything that steers a runtime or us."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    environment.update({k: str(v) for k, v in extra.items()})
    return environment


def compile_c(source, output, *flags):
    """Compiles a test's C program once; two workers may do it at the same time."""
    output = BUILD / "test" / output
    output.parent.mkdir(parents=True, exist_ok=True)
    if not output.exists() or output.stat().st_mtime < (ROOT / source).stat().st_mtime:
        scratch = output.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        subprocess.run(["gcc", "-O2", "-g", "-Wall", "-pthread", "-o", scratch, ROOT / source, *flags, "-ldl"], check=True)
        scratch.rename(output)
    return output


class Answer:
    """The result of one call: its error code and the values it printed."""

    def __init__(self, line):
        self.line = line.strip()
        words = self.line.split()
        assert words, "the program is gone"
        self.missing = words[0] == "missing"
        self.error = None if self.missing else int(words[0])
        self.values = dict(w.split("=", 1) for w in words[1:] if "=" in w)

    def __getattr__(self, name):
        value = self.values[name]
        return int(value, 0) if value.lstrip("-").replace("x", "", 1).isalnum() and value[0] in "-0123456789" else value

    def __repr__(self):
        return self.line


class Program:
    """hipsh: a HIP program under our control."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment)
        line = self.process.stdout.readline()
        if line != "ready\n":
            raise AssertionError(f"{line}{self.process.communicate()[1]}")

    def __call__(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return Answer(self.process.stdout.readline())

    def ok(self, line):
        answer = self(line)
        assert answer.error == 0, f"{line}: {answer}"
        return answer

    @property
    def pid(self):
        return self.process.pid

    def end(self):
        """Ends as a program does; returns what it wrote on stderr."""
        if self.process.poll() is None:
            self.process.stdin.close()
        self.process.stdin = None
        error = self.process.communicate(timeout=60)[1]
        return error

    def kill(self, with_signal=signal.SIGKILL):
        self.process.send_signal(with_signal)
        self.process.wait()


class Pod:
    """Processes that share one region, on one stand-in card (or several)."""

    def __init__(self, folder, machine=None, runtime=7):
        self.folder = folder
        self.region = folder / "region"
        self.state = machine or folder / "card"
        self.runtime = runtime
        self.programs = []

    def environment(self, **extra):
        values = dict(LD_AUDIT=LIBRARY, LD_LIBRARY_PATH=STANDIN, HIPSH_RUNTIME=f"libamdhip64.so.{self.runtime}",
                      HIP_DEVICE_MEMORY_SHARED_CACHE=self.region, SOFTGPU_STATE=self.state, LIBHIP_LOG_LEVEL=1)
        values.update(extra)
        return clean_environment(**{k: v for k, v in values.items() if v is not None})

    def run(self, limit="1G", **extra):
        """Starts a program under a limit (None: no limit variable)."""
        if limit is not None:
            extra.setdefault("HIP_DEVICE_MEMORY_LIMIT_0", limit)
        program = Program([compile_c("test/e2e/hipsh.c", "hipsh")], self.environment(**extra))
        self.programs.append(program)
        return program

    def status(self):
        """What amvgpu status says of the region."""
        output = subprocess.run([AMVGPU, "status", "--json", self.region], env=clean_environment(), text=True,
                                capture_output=True, check=True).stdout
        return json.loads(output)

    def oracle(self):
        """What the card really gave: device -> {pid: bytes}."""
        output = subprocess.run([STANDIN / "oracle", self.state, "--json"], env=clean_environment(), text=True,
                                capture_output=True, check=True).stdout
        return json.loads(output)

    def close(self):
        for program in self.programs:
            if program.process.poll() is None:
                program.process.kill()
            program.process.wait()


@pytest.fixture
def pod(tmp_path):
    """A pod on a card of its own."""
    pod = Pod(tmp_path)
    yield pod
    pod.close()


@pytest.fixture
def make_pod(tmp_path):
    """Several pods, by name."""
    pods = []

    def make(name, **options):
        folder = tmp_path / name
        folder.mkdir()
        pods.append(Pod(folder, **options))
        return pods[-1]

    yield make
    for pod in pods:
        pod.close()

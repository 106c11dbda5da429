"""What the tests of amvgpu and of containers share: building the tool and small programs, actors that hold slots."""
import contextlib
import fcntl
import functools
import json
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "amvgpu"
MIB, GIB = 1 << 20, 1 << 30


def need(command, package):
    """Installs a Debian package if the command is missing; fails loudly if that cannot be."""
    if not shutil.which(command):
        with exclusive("apt"):
            subprocess.run([str(ROOT / "test" / "prepare"), package], check=True)
    path = shutil.which(command)
    assert path, f"{command} is missing; apt-get install {package}"
    return path


@contextlib.contextmanager
def exclusive(name):
    """Several test processes (xdist) may want to build the same thing."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def quietly(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


def build_all(target):
    """A target of the whole build, which ./check has made already; then this takes a moment."""
    folder = ROOT / "build" / "all"
    with exclusive("all"):
        if not (folder / "Makefile").exists():
            quietly("cmake", "-S", ROOT, "-B", folder, "-G", "Unix Makefiles")
        quietly("cmake", "--build", folder, "--target", target)
    return folder


@functools.cache
def build_tool():
    if "AMVGPU_TOOL" in os.environ:  # another build, with sanitizers for example
        return pathlib.Path(os.environ["AMVGPU_TOOL"])
    return build_all("amvgpu-tool") / "tools" / "amvgpu" / "amvgpu"


def build_program(name, *sources, flags=(), compiler="gcc"):
    """Compiles once into the build folder; again when a source is newer."""
    out = BUILD / name
    with exclusive("program-" + name):
        paths = [pathlib.Path(s) for s in sources]
        if not out.exists() or any(p.stat().st_mtime > out.stat().st_mtime for p in paths):
            quietly(compiler, "-O1", "-g", "-Wall", "-o", out, *paths, *flags)
    return out


@functools.cache
def build_library():
    """libamvgpu.so as amd-device-plugin builds it."""
    library = ROOT / "build-hip" / "libamvgpu.so"
    with exclusive("library"):
        if not library.exists():
            quietly("make", "-C", ROOT, "-f", "Makefile.hip", "all")
    return library


@functools.cache
def build_runtime():
    """The folder of the stand-in runtimes (softgpu/hip)."""
    return build_all("all") / "softgpu" / "hip"


@functools.cache
def build_emulated_driver():
    """What softgpu/kfd/run needs; the ROCm runtimes it fetches itself."""
    with exclusive("kfd"):
        quietly("cmake", "-S", ROOT / "softgpu" / "kfd", "-B", ROOT / "build" / "softgpu-kfd")
        quietly("cmake", "--build", ROOT / "build" / "softgpu-kfd")


@functools.cache
def build_actor():
    ledger = ROOT / "src" / "multiprocess" / "hip_multiprocess_memory_limit.c"
    return build_program("slot_actor", ROOT / "test" / "container" / "slot_actor.c", ledger, flags=["-pthread"])


def clean_environment(**more):
    """Ours without anything that the product reads."""
    ours = ("LD_AUDIT", "HIP_", "HSA_", "AMD_", "ROCR_", "ROC_", "CUDA_", "GLIBC_TUNABLES", "LD_BIND_NOW", "XDG_RUNTIME_DIR")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return kept | {k: str(v) for k, v in more.items()}


class Tool:
    """The amvgpu under test, in an environment of its own."""

    def __init__(self, runtime_folder):
        self.path = build_tool()
        self.environment = clean_environment(XDG_RUNTIME_DIR=runtime_folder, LC_ALL="C.UTF-8")

    def __call__(self, *arguments, environment=None, **options):
        options.setdefault("timeout", 60)
        return subprocess.run([str(self.path), *map(str, arguments)], capture_output=True, text=True,
                              env=self.environment | (environment or {}), **options)

    def json(self, *arguments, **options):
        done = self(*arguments, **options)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


class Actor:
    """A living process with a slot; ends when the block ends, or dies when told."""

    def __init__(self, region, *steps, prefix=(), **options):
        self.command = [*map(str, prefix), str(build_actor()), str(region), *steps]
        self.options = options

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **self.options)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=20)
        self.process.stdout.close()

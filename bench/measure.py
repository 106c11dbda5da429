"""Builds the programs of the benchmark and runs them. Each function returns plain numbers, ns and KiB, for JSON."""
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
HERE = ROOT / "bench"
BUILD = ROOT / "build" / "bench"
WHOLE = ROOT / "build" / "all"  # if it is there; else the stand-in is built alone, which needs no package of the tool's
STANDIN = WHOLE / "softgpu" / "hip" if (WHOLE / "Makefile").exists() else BUILD / "standin"
LIBRARY = BUILD / "libamvgpu.so"  # a copy: what is measured stays the same if somebody builds meanwhile
BUILT = ROOT / "build-hip" / "libamvgpu.so"
LIMIT = 64 << 30
STEERING = ("HIP_", "HSA_", "AMD_TASK", "LIBHIP", "ROCR_", "ROC_", "CUDA_", "SOFTGPU_", "LD_", "KFDEMU", "BENCH_")
SYMBOLS = 100_000
COST = ("cost", "calls", "crowd", "flip", "floor")


def shell(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, text=True, **options)


def quietly(*command):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}")


def compile_c(output, *sources_and_flags):
    quietly("gcc", "-O2", "-g", "-Wall", "-Wextra", "-pthread", "-o", BUILD / output, *sources_and_flags)


def build_many_symbols():
    """A program that binds 100,000 functions of a library at its start."""
    names = [f"function_of_the_program_{i}" for i in range(SYMBOLS)]
    library, program = BUILD / "symbols.s", BUILD / "symbols_main.s"
    note = '.section .note.GNU-stack,"",@progbits\n'
    library.write_text(".text\n" + "".join(f".globl {n}\n.type {n},@function\n{n}: ret\n" for n in names) + note)
    program.write_text(".text\n.globl main\n.type main,@function\nmain: xor %eax,%eax\nret\n.data\n"
                       + "".join(f".quad {n}\n" for n in names) + note)
    quietly("gcc", "-shared", "-o", BUILD / "libsymbols.so", library)
    quietly("gcc", "-no-pie", "-o", BUILD / "symbols", program, BUILD / "libsymbols.so", f"-Wl,-rpath,{BUILD}")


def build_cost():
    compile_c("cost", *(HERE / f"{name}.c" for name in COST), "-ldl")
    compile_c("slots", HERE / "programs" / "slots.c", ROOT / "src" / "multiprocess" / "hip_multiprocess_memory_limit.c")


def build():
    BUILD.mkdir(parents=True, exist_ok=True)
    if not BUILT.exists():
        quietly("make", "-C", ROOT, "-f", "Makefile.hip", "all")
    shutil.copy(BUILT, LIBRARY)
    folder = STANDIN if STANDIN.parent == BUILD else WHOLE
    quietly("cmake", "-S", ROOT / "softgpu" / "hip" if folder == STANDIN else ROOT, "-B", folder)
    for target in ("softgpu_hip7", "softgpu_hsa"):
        quietly("cmake", "--build", folder, "--target", target, "--parallel", os.cpu_count())
    build_cost()
    compile_c("spawn", HERE / "programs" / "spawn.c")
    compile_c("nothing.so", "-shared", "-fPIC", HERE / "programs" / "nothing.c", "-nostdlib")
    compile_c("linked", HERE / "programs" / "linked.c", STANDIN / "libamdhip64.so.7", "-Wl,-z,lazy",
              f"-Wl,-rpath,{STANDIN}")
    if not (BUILD / "symbols").exists():
        build_many_symbols()


class Pod:
    """A pod of its own: region, card, limit."""

    def __init__(self, folder, library=LIBRARY, limit=LIMIT, runtime="libamdhip64.so.7"):
        self.folder, self.library, self.limit = pathlib.Path(folder), pathlib.Path(library).resolve(), limit
        self.runtime = runtime

    def environment(self, audited=True, **extra):
        values = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        values.update(LD_LIBRARY_PATH=STANDIN, BENCH_RUNTIME=self.runtime, BENCH_LIBRARY=self.library,
                      BENCH_LIMIT=self.limit, HIP_DEVICE_MEMORY_LIMIT=self.limit, LIBHIP_LOG_LEVEL=1,
                      HIP_DEVICE_MEMORY_SHARED_CACHE=self.folder / "region", SOFTGPU_STATE=self.folder / "card",
                      SOFTGPU_CAPACITY="256G", **extra)
        if audited:
            values["LD_AUDIT"] = self.library
        return {k: str(v) for k, v in values.items()}

    def cost(self, *arguments, audited=True, **extra):
        """The JSON lines that cost prints."""
        environment = self.environment(audited, LD_BIND_NOW=1, **extra)
        done = shell(BUILD / "cost", *arguments, env=environment, stdout=subprocess.PIPE)
        return [json.loads(line) for line in done.stdout.splitlines()]

    @contextlib.contextmanager
    def slots(self, count):
        """So many other processes of the pod are there."""
        if not count:
            yield
            return
        holder = subprocess.Popen([BUILD / "slots", self.folder / "region", str(count)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        try:
            if holder.stdout.readline() != "ready\n":
                raise SystemExit("bench: the slots could not be filled")
            yield
        finally:
            holder.stdin.close()
            holder.wait()


@contextlib.contextmanager
def pod(**options):
    """In memory where there is some: a region lives in a tmpfs where pods are."""
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="bench.", dir=where) as folder:
        yield Pod(folder, **options)


def calls(rounds, *names, slots=0, **options):
    with pod(**options) as p, p.slots(slots):
        return p.cost("calls", rounds, *names)


def near_the_limit(rounds):
    """One allocation lives, and one more fits."""
    return calls(rounds, "hipMalloc+hipFree", "hipMemGetInfo", limit=2 * 4096)


def live(rounds, counts):
    with pod(limit=200 << 30) as p:
        lines = p.cost("live", rounds, *counts)
    return [dict(line, live=int(line["name"].split()[0]), what=line["name"].split()[1]) for line in lines]


def crowd(processes, threads, seconds, library=LIBRARY):
    """As many pairs as fill about so many seconds. The stand-in keeps what is freed, as ROCr does: else its own books, which all
    processes write, are what is measured."""
    pairs, cores = 4000, os.cpu_count()
    rounds = max(11, int(seconds * 1e9 / (pairs * 400 * (1 + max(1, processes * threads / cores)) * 2)))
    with pod(library=library) as p:
        return p.cost("crowd", processes, threads, pairs, min(rounds, 400), SOFTGPU_KEEP="64M")[0]


def spawn(rounds, at_once, *program, variants=("-", LIBRARY, BUILD / "nothing.so", "-")):
    """ms a start without, with, and under an audit library that does nothing; the last: without again, for the noise."""
    with pod() as p:
        done = shell(BUILD / "spawn", rounds, at_once, ",".join(map(str, variants)), *program,
                     env=p.environment(False), stdout=subprocess.PIPE)
    without, with_it, nothing, again = [[ns / 1e6 for ns in row] for row in json.loads(done.stdout)]
    differences = [w - (a + b) / 2 for w, a, b in zip(with_it, without, again)]
    return {"without": statistics.median(without), "with": statistics.median(with_it),
            "nothing": statistics.median(nothing), "added": statistics.median(differences),
            "nothing_added": statistics.median(n - (a + b) / 2 for n, a, b in zip(nothing, without, again)),
            "noise": statistics.median(b - a for a, b in zip(without, again)), "rounds": len(without), "at_once": at_once}


def unwrapped_through_plt(pairs=15):
    """ns of an un-wrapped call in processes with and without the library, in turns."""
    with pod() as p:
        def one(audited):
            return float(shell(BUILD / "linked", "calls", env=p.environment(audited), stdout=subprocess.PIPE).stdout)
        rows = [(one(False), one(True), one(False)) for _ in range(pairs)]
    without, with_it, again = (list(column) for column in zip(*rows))
    return {"without": statistics.median(without), "with": statistics.median(with_it),
            "added": statistics.median(w - (a + b) / 2 for w, a, b in zip(with_it, without, again)),
            "noise": statistics.median(b - a for a, b in zip(without, again))}


def memory(count):
    """KiB added to a process with so many live allocations; "none": it never loads HIP. How much of a file the kernel maps
    around a touched page differs from start to start by 100 KiB: many starts where they are cheap."""
    repeats = 5 if str(count).isdigit() and int(count) > 1000 else 61
    with pod(limit=200 << 30) as p:
        rows = [[p.cost("memory", count, audited=audited)[0] for audited in (False, True)] for _ in range(repeats)]
    return {key: statistics.median(with_it[key] - without[key] for without, with_it in rows) for key in rows[0][0]}


def memory_of_nothing(repeats=61):
    """The same for an audit library that does nothing."""
    with pod(library=BUILD / "nothing.so") as p:
        rows = [[p.cost("memory", "none", audited=audited)[0] for audited in (False, True)] for _ in range(repeats)]
    return {key: statistics.median(with_it[key] - without[key] for without, with_it in rows) for key in rows[0][0]}


def floor():
    return json.loads(shell(BUILD / "cost", "floor", stdout=subprocess.PIPE).stdout)


def library_bytes(library=LIBRARY):
    """The file, the file without debugging information, and what size(1) says."""
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "stripped"
        shell("strip", "-o", stripped, library)
        size = shell("size", library, stdout=subprocess.PIPE).stdout.splitlines()[1].split()
        return {"file": os.path.getsize(library), "stripped": os.path.getsize(stripped), "text": int(size[0]),
                "data": int(size[1]), "bss": int(size[2])}


REAL = {"7.2": 7, "6.4": 6, "5.7": 5, "5.2": 5}
UNFIT = {  # with the library or without it
    "5.7": {"hipMemCreate+hipMemRelease": "out of memory after some 8,000: what is released does not come back"},
    "5.2": {"hipMemCreate+hipMemRelease": "its argument has another layout",
            "hipMallocAsync+hipFreeAsync": "the runtime crashes on the null stream"},
}


def real_runtime(version, rounds):
    """On an unmodified ROCm over the emulated driver."""
    names = [name for name in ("hipMalloc+hipFree", "hipMallocAsync+hipFreeAsync", "hipMemCreate+hipMemRelease",
                               "hipMemGetInfo") if name not in UNFIT.get(version, {})]
    with pod(limit=8 << 30, runtime=f"libamdhip64.so.{REAL[version]}") as p:
        environment = p.environment(False, LD_BIND_NOW=1)
        del environment["LD_LIBRARY_PATH"]
        done = shell(ROOT / "softgpu" / "kfd" / "run", "--rocm", version, "--audit", p.library, "--", BUILD / "cost",
                     "calls", rounds, *names, env=environment, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

"""Programs on the unmodified ROCm runtimes over emulated cards: pods whose oracle knows every byte that was given."""
import json
import os
import pathlib
import subprocess
import threading
import textwrap

import pytest

from conftest import BUILD, LIBRARY, ROOT, Pod, Program, clean_environment, compile_c

KFD = ROOT / "softgpu" / "kfd"
EMULATION = BUILD / "all" / "softgpu" / "kfd"
RELEASES = ("7.2", "6.4", "5.7", "5.2")
SCRATCH_RESERVE = 146800640  # what ROCr from 5.7 on keeps for scratch where more than some 1.2 GiB are available


def compiled_for_the_card(source, *options, patches=()):
    """A code object for gfx90a from a file of test/card. patches: bytes to replace in it, of the same length in all."""
    output = BUILD / "test" / f"{pathlib.Path(source).stem}.co"
    if not output.exists():
        output.parent.mkdir(parents=True, exist_ok=True)
        scratch = output.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        subprocess.run(["clang", *options, "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-o", scratch,
                        ROOT / "test" / "card" / source], check=True)
        code = scratch.read_bytes()
        for old, new in patches:
            assert code.count(old) == 1
            code = code.replace(old, new)
        assert len(code) == scratch.stat().st_size
        scratch.write_bytes(code)
        scratch.rename(output)
    return output


def code_object():
    """64 MiB of globals and a kernel with a large stack, for gfx90a."""
    return compiled_for_the_card("globals.cl", "-x", "cl", "-cl-std=CL2.0", "-O1")


def heap_code_object():
    """A kernel that uses the device's heap. The assembler does not know the argument's kind, so that it is put in its place:
    both are strings with their length in front, and the three bytes that one grows the other gives."""
    return compiled_for_the_card("heap.s", "-x", "assembler", "-nostdlib", "-mcode-object-version=4",
                                 patches=((b"\xabhidden_none", b"\xaehidden_heap_v1"), (b"\xa6shrink", b"\xa3shr")))


class RealPod(Pod):
    """Processes of one pod on a real runtime. cards: MiB of VRAM of each."""

    def __init__(self, folder, release, cards=(4096,), machine=None):
        super().__init__(folder, machine=machine or folder / "oracle", runtime=int(release[0]))
        self.release, self.cards = release, cards
        self.processes = []

    def environment(self, **extra):
        values = dict(HIPSH_RUNTIME=f"libamdhip64.so.{self.runtime}", KFDEMU_LIB=EMULATION / "libkfdemu.so",
                      HIP_DEVICE_MEMORY_SHARED_CACHE=self.region, LIBHIP_LOG_LEVEL=1, TMPDIR=self.folder)
        values.update(extra)
        return clean_environment(**{k: v for k, v in values.items() if v is not None})

    def command(self, program, *arguments, audit=True, options=()):
        return [KFD / "run", "--rocm", self.release, "--gpus", str(len(self.cards)),
                "--vram-mb", ",".join(map(str, self.cards)), "--oracle", self.state,
                "--log", self.folder / "log", *(("--audit", LIBRARY) if audit else ()), *options, "--", program,
                *arguments]

    def run(self, limit="1G", audit=True, options=(), shell="test/e2e/hipsh.c", **extra):
        """hipsh, or another shell; a limit of None sets none."""
        if limit is not None:
            extra.setdefault("HIP_DEVICE_MEMORY_LIMIT", limit)
        program = Program(self.command(compile_c(shell, pathlib.Path(shell).stem), audit=audit, options=options),
                          self.environment(**extra))
        self.programs.append(program)
        return program

    def client(self, script, limit="1G", audit=True, options=(), **extra):
        """A Python program that speaks to the emulated driver and to no ROCm (test/softgpu_kfd/kfd_client.py), under the
        runtime's libc. It says what it finds."""
        text = ("import ctypes\nctypes.CDLL(None)\nfrom kfd_client import *\n" + textwrap.dedent(script))
        return self.start("/usr/bin/python3", "-c", text, limit=limit, audit=audit, options=options,
                          PYTHONPATH=ROOT / "test" / "softgpu_kfd", PYTHONDONTWRITEBYTECODE=1, **extra)

    def start(self, program, *arguments, limit="1G", audit=True, options=(), **extra):
        """Another program; its output is read by the caller."""
        if limit is not None:
            extra.setdefault("HIP_DEVICE_MEMORY_LIMIT", limit)
        process = subprocess.Popen(self.command(program, *arguments, audit=audit, options=options),
                                   env=self.environment(**extra), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def close(self):
        super().close()
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def oracle(self):
        output = subprocess.run([EMULATION / "kfdemu-oracle", self.state, "--json"], env=clean_environment(), text=True,
                                capture_output=True, check=True).stdout
        answer = json.loads(output)
        assert answer["valid"], "the oracle's gauges are not the sums of its extents"
        return answer

    def given(self):
        """{pid: {device: bytes}} of the living, as the driver gave them."""
        return {p["pid"]: {c["card"]: c["now"] for c in p["cards"] if c["now"]}
                for p in self.oracle()["processes"] if p["alive"]}

    def charged(self):
        """{pid: {device: bytes}} of the living, as the physical book has them."""
        if not self.region.exists():
            return {}
        (region,) = self.status()["regions"]
        return {p["pid"]: {d["index"]: d["physical_bytes"] for d in p["devices"] if d["physical_bytes"]}
                for p in region["processes"]}

    def peak(self, card=0):
        return self.oracle()["cards"][card]["peak"]

    def log(self, word=""):
        text = (self.folder / "log").read_text() if (self.folder / "log").exists() else ""
        return [line for line in text.splitlines() if word in line]


def assert_books_are_true(pod):
    """The physical book of every living process and device is what the driver gave, to the byte."""
    given = {pid: cards for pid, cards in pod.given().items() if cards}
    charged = {pid: cards for pid, cards in pod.charged().items() if cards}
    assert charged == given


def parameters(*releases):
    """The runtimes a test is run on; one worker for each, so that their files are read once."""
    return pytest.mark.parametrize("release", releases or RELEASES)


@pytest.fixture
def pod_on(tmp_path):
    """Makes pods; the first argument is the release."""
    pods = []

    def make(release, name="pod", **options):
        folder = tmp_path / name
        folder.mkdir()
        pods.append(RealPod(folder, release, **options))
        return pods[-1]

    yield make
    for pod in pods:
        pod.close()


def said(process):
    """The next line of a client."""
    line = process.stdout.readline()
    assert line, f"the program ended: {process.stderr.read()}"
    return line.strip()


def go_on(process):
    """Lets a client go on that waits for a line."""
    process.stdin.write("\n")
    process.stdin.flush()


def end(process):
    """What a client that must succeed has said."""
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, f"exit status {process.returncode}\n{out}\n{error}"
    return out

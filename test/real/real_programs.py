"""Programs that nobody here wrote, unpacked by test/real/programs, in a pod on an unmodified runtime."""
import pathlib
import subprocess

from conftest import GIB, ROOT
from real_pod import RealPod, runtime_folder

LIB = "usr/lib/x86_64-linux-gnu"
LIMIT, CARD = 4 * GIB, 16 * GIB


class Programs:
    """The programs of a set, unpacked, in a pod of two cards (of 16 GiB, unless said)."""

    def __init__(self, folder, name, vram_mb=CARD >> 20):
        release = name.split("-")[0]
        runtime = pathlib.Path(runtime_folder(release)) / LIB
        done = subprocess.run([ROOT / "test" / "real" / "programs", name], text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        self.root, self.release = pathlib.Path(done.stdout.strip()), release
        self.absent = set((self.root / "absent").read_text().split())
        self.pod = RealPod(folder, release, gpus=2, vram_mb=vram_mb)
        self.libraries = folder / "libraries"  # what the runtime's folder lacks: its own libc and HIP come first
        self.libraries.mkdir()
        for part in (".", "blas", "llama"):
            for library in self.root.glob(f"{LIB}/{part}/*.so*"):
                if not (runtime / library.name).exists():
                    (self.libraries / library.name).symlink_to(library)
        lsmod = folder / "lsmod"  # rocminfo asks it for the driver's module
        lsmod.write_text("#!/bin/sh\necho amdgpu 1 0\n")
        lsmod.chmod(0o755)

    def close(self):
        self.pod.close()

    def has(self, path):
        return (self.root / path).exists()

    def line(self, program, arguments, extra):
        """A program of usr/bin by its name, any other by its path; with what it needs around it."""
        program = program if isinstance(program, pathlib.Path) else self.root / "usr" / "bin" / program
        return (program, *arguments), dict(LD_LIBRARY_PATH=self.libraries, PATH=f"{self.pod.folder}:/usr/bin:/bin", **extra)

    def start(self, program, *arguments, limit=LIMIT, **extra):
        line, extra = self.line(program, arguments, extra)
        return self.pod.start(*line, limit=limit, **extra)

    def output(self, program, *arguments, limit=LIMIT, **extra):
        line, extra = self.line(program, arguments, extra)
        return self.pod.output(*line, limit=limit, timeout=300, **extra)

    def bare(self, *arguments, **extra):
        return self.output(*arguments, audit=None, limit=None, **extra)

    def script(self, name, text):
        path = self.pod.folder / name
        path.write_text(text)
        return path

    def peak(self, card=0):
        """The most that was taken from a card at once."""
        return self.pod.oracle()["cards"][card]["peak"]

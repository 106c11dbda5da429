"""A pod on an unmodified ROCm runtime over emulated cards: what conftest.Pod is on the stand-in."""
import json
import select
import subprocess

from conftest import BUILD, LIBRARY, ROOT, Answer, Pod, Program, clean_environment, compile_c

KFD = ROOT / "softgpu" / "kfd"
EMULATOR = BUILD / "all" / "softgpu" / "kfd"
RELEASES = {"5.2": 52, "5.7": 57, "6.4": 64, "7.2": 72}  # as the driver folder names them -> as the table does


def several(tmp_path, kind):
    """For a fixture: makes pods, or what else has close(), each in a folder of its own, and closes them at the end."""
    made = []

    def make(name, **options):
        folder = tmp_path / f"pod{len(made)}"
        folder.mkdir()
        made.append(kind(folder, name, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def runtime_folder(release):
    """The unpacked runtime; the first call for a release downloads it."""
    done = subprocess.run([ROOT / "softgpu" / "rocm", release], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class RealProgram(Program):
    """hipsh; a call that takes too long is a failed one, for some releases hang by themselves."""
    patience_s = 60

    def __call__(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], self.patience_s)[0]:
            self.process.kill()
            raise AssertionError(f"{line}: hangs")
        text = self.process.stdout.readline()
        assert text, f"{line}: the program is gone, {self.process.wait()}"
        return Answer(text)


class RealPod(Pod):
    """Pods that name the same machine share its cards."""

    def __init__(self, folder, release, machine=None, gpus=1, vram_mb=16384, **settings):
        super().__init__(folder, machine=machine or folder / "oracle", runtime=release)
        self.release, self.gpus, self.vram_mb = release, gpus, vram_mb
        self.log_file = folder / "log"
        self.settings = settings  # of the emulation, without KFDEMU_

    def environment(self, **extra):
        values = dict(HIP_DEVICE_MEMORY_SHARED_CACHE=self.region, LIBHIP_LOG_LEVEL=1, HOME=self.folder, TMPDIR=self.folder,
                      KFDEMU_LIB=EMULATOR / "libkfdemu.so", HIPSH_RUNTIME=f"libamdhip64.so.{self.release[0]}",
                      HIPSH_PROP_52=1 if self.release == "5.2" else None)
        values.update(extra)
        return clean_environment(**{k: v for k, v in values.items() if v is not None})

    def command(self, *program, audit=LIBRARY, options=()):
        """The command line that runs a program; audit None: without us."""
        line = [KFD / "run", "--rocm", self.release, "--oracle", self.state, "--log", self.log_file, "--gpus",
                str(self.gpus), "--vram-mb", str(self.vram_mb)]
        for name, value in self.settings.items():
            line += ["--set", f"{name}={value}"]
        return [*line, *(("--audit", audit) if audit else ()), *options, "--", *program]

    def run(self, limit="1G", audit=LIBRARY, options=(), **extra):
        """Starts hipsh; limit None: no limit variable."""
        if limit is not None:
            extra.setdefault("HIP_DEVICE_MEMORY_LIMIT", limit)
        hipsh = compile_c("test/e2e/hipsh.c", "hipsh")
        program = RealProgram(self.command(hipsh, audit=audit, options=options), self.environment(**extra))
        self.programs.append(program)
        return program

    def start(self, *program, audit=LIBRARY, options=(), limit=None, cwd=None, **extra):
        """Starts any program, with pipes."""
        if limit is not None:
            extra.setdefault("HIP_DEVICE_MEMORY_LIMIT", limit)
        return subprocess.Popen(self.command(*program, audit=audit, options=options), text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment(**extra), cwd=cwd)

    def output(self, *program, timeout=120, **options):
        """Runs any program to its end: exit status, standard output, standard error."""
        process = self.start(*program, **options)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
        return process.returncode, out, err

    def books(self, device=0):
        """The pod's two books, in bytes, as amvgpu status shows them."""
        if not self.region.exists():
            return 0, 0
        (region,) = self.status()["regions"]
        found = [d for d in region["devices"] if d["index"] == device]
        return (found[0]["requested_bytes"], found[0]["physical_bytes"]) if found else (0, 0)

    def oracle(self):
        """What the cards really gave."""
        output = subprocess.run([EMULATOR / "kfdemu-oracle", self.state, "--json"], text=True, capture_output=True,
                                env=clean_environment(), check=True).stdout
        answer = json.loads(output)
        assert answer["valid"], "the oracle's gauges are not the sums of its extents"
        return answer

    def given(self, device=0, which="now"):
        """Bytes that this pod's programs hold on a card, as the oracle counts them."""
        pids = {p.pid for p in self.programs}
        return sum(p["cards"][device][which] for p in self.oracle()["processes"] if p["pid"] in pids)

    def log(self, word=""):
        """The driver calls that hold a word."""
        text = self.log_file.read_text() if self.log_file.exists() else ""
        return [line for line in text.splitlines() if word in line]

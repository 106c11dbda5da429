"""Programs that nobody here wrote, from Debian, on unmodified runtimes and under a limit; test/real/programs unpacks them."""
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import GIB, ROOT

sys.path.insert(0, str(ROOT / "test" / "real"))
from real_pod import RELEASES, RealPod, runtime_folder  # noqa: E402

pytestmark = pytest.mark.slow  # the first run downloads

LIB = "usr/lib/x86_64-linux-gnu"
LIMIT, CARD = 4 * GIB, 16 * GIB
WITHOUT_UCX_ROCM = ("5.2",)  # Debian's UCX of that suite is built without it


class Programs:
    """The programs of a set, unpacked, in a pod of two cards of 16 GiB."""

    def __init__(self, folder, name):
        release = name.split("-")[0]
        runtime = pathlib.Path(runtime_folder(release)) / LIB
        done = subprocess.run([ROOT / "test" / "real" / "programs", name], text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        self.root, self.release = pathlib.Path(done.stdout.strip()), release
        self.absent = set((self.root / "absent").read_text().split())
        self.pod = RealPod(folder, release, gpus=2)
        self.libraries = folder / "libraries"  # what the runtime's folder lacks: its own libc and HIP come first
        self.libraries.mkdir()
        for library in (*self.root.glob(f"{LIB}/*.so*"), *self.root.glob(f"{LIB}/llama/*.so*")):
            if not (runtime / library.name).exists():
                (self.libraries / library.name).symlink_to(library)
        lsmod = folder / "lsmod"  # rocminfo asks it for the driver's module
        lsmod.write_text("#!/bin/sh\necho amdgpu 1 0\n")
        lsmod.chmod(0o755)

    def has(self, path):
        return (self.root / path).exists()

    def output(self, program, *arguments, limit=LIMIT, **extra):
        program = program if isinstance(program, pathlib.Path) else self.root / "usr" / "bin" / program
        return self.pod.output(program, *arguments, limit=limit, timeout=300, LD_LIBRARY_PATH=self.libraries,
                               PATH=f"{self.pod.folder}:/usr/bin:/bin", **extra)

    def bare(self, *arguments, **extra):
        return self.output(*arguments, audit=None, limit=None, **extra)


@pytest.fixture(params=RELEASES)
def programs(request, tmp_path):
    programs = Programs(tmp_path, request.param)
    yield programs
    programs.pod.close()


def vram_pools(text):
    """Sizes in KiB of the GLOBAL pools of the GPUs, as rocminfo prints them."""
    gpus = [part for part in text.split("*******") if "Device Type:             GPU" in part]
    return [int(size) for part in gpus
            for size in re.findall(r"Segment:\s+GLOBAL.*?\n\s+Size:\s+(\d+)", part)]


def test_rocminfo_reports_the_limit_as_the_size_of_every_pool_of_the_cards(programs):
    status, out, err = programs.output("rocminfo")
    assert status == 0, err
    sizes = vram_pools(out)
    assert len(sizes) >= 2 and set(sizes) == {LIMIT // 1024}


def test_rocminfo_without_us_reports_the_card(programs):
    status, out, err = programs.bare("rocminfo")
    assert status == 0, err
    assert set(vram_pools(out)) == {CARD // 1024}


def test_python_sees_and_obeys_the_limit_through_ctypes(programs):
    script = programs.pod.folder / "client.py"
    script.write_text("import ctypes, sys\n"
                      "hip, p = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()\n"
                      "free, total = ctypes.c_size_t(), ctypes.c_size_t()\n"
                      "print(hip.hipMemGetInfo(ctypes.byref(free), ctypes.byref(total)), total.value)\n"
                      "print(hip.hipMalloc(ctypes.byref(p), ctypes.c_size_t(5 << 30)))\n"
                      "print(hip.hipMalloc(ctypes.byref(p), ctypes.c_size_t(1 << 29)), hip.hipFree(p))\n")
    status, out, err = programs.pod.output(script, f"libamdhip64.so.{programs.release[0]}", limit=LIMIT)
    assert (status, out.split()) == (0, ["0", str(LIMIT), "2", "0", "0"]), err


# ---- OpenCL: AMD's implementation, without HIP ----

def opencl_sizes(programs, run):
    icd = programs.root / LIB / "libamdocl64.so"
    status, out, err = run("clinfo", OCL_ICD_VENDORS=icd)
    assert status == 0, err
    return [int(size) for size in re.findall(r"^  Global memory size\s+(\d+)", out, re.M)]


def test_opencl_reports_the_limit(programs):
    if "rocm-opencl-icd" in programs.absent:
        assert programs.release == "5.2"  # bookworm has none
        return
    assert opencl_sizes(programs, programs.output) == [LIMIT, LIMIT]
    assert opencl_sizes(programs, programs.bare) == [CARD, CARD]


# ---- UCX: HSA without HIP ----

def test_ucx_finds_the_cards_as_without_us(programs):
    modules = programs.root / LIB / "ucx"
    with_us, bare = (run("ucx_info", "-d", UCX_MODULE_DIR=modules) for run in (programs.output, programs.bare))
    assert with_us[0] == bare[0] == 0, with_us[2]
    domains = [sorted(re.findall(r"Memory domain: (rocm\w+)", text)) for _, text, _ in (with_us, bare)]
    assert domains[0] == domains[1]
    if programs.has(f"{LIB}/ucx/libuct_rocm.so.0"):
        assert domains[0] == ["rocm_cpy", "rocm_ipc"]
    else:
        assert domains[0] == [] and programs.release in WITHOUT_UCX_ROCM


# ---- llama.cpp: a large HIP program ----

@pytest.fixture
def llama(tmp_path):
    programs = Programs(tmp_path, "6.4-llama")
    yield programs
    programs.pod.close()


def test_llama_cpp_lists_the_cards_with_the_limit(llama):
    backend = llama.root / LIB / "ggml" / "backends0" / "libggml-hip.so"
    for run, mib in ((llama.output, LIMIT >> 20), (llama.bare, CARD >> 20)):
        status, out, err = run("llama-cli", "--list-devices", GGML_BACKEND_PATH=backend)
        assert status == 0, err
        assert re.findall(r"ROCm(\d): .*\((\d+) MiB, (\d+) MiB free\)", out) == [
            ("0", str(mib), str(mib)), ("1", str(mib), str(mib))], out


LOAD_BUFFERS = """
import ctypes, sys
base, ggml = ctypes.CDLL("libggml-base.so.0"), ctypes.CDLL("libggml.so.0")
for function in (ggml.ggml_backend_load, ggml.ggml_backend_dev_by_name, base.ggml_backend_dev_buffer_type,
                 base.ggml_backend_buft_alloc_buffer):
    function.restype = ctypes.c_void_p
ggml.ggml_backend_load(sys.argv[1].encode())
card = ctypes.c_void_p(ggml.ggml_backend_dev_by_name(b"ROCm0"))
kind = ctypes.c_void_p(base.ggml_backend_dev_buffer_type(card))
loaded = 0
while loaded < 64 and base.ggml_backend_buft_alloc_buffer(kind, ctypes.c_size_t(512 << 20)):
    loaded += 1
print("loaded", loaded)
"""


def test_llama_cpp_loads_buffers_up_to_the_limit_and_is_told_out_of_memory(llama):
    script = llama.pod.folder / "buffers.py"
    script.write_text(LOAD_BUFFERS)
    backend = llama.root / LIB / "ggml" / "backends0" / "libggml-hip.so"
    for run, most in ((llama.output, LIMIT // (512 << 20)), (llama.bare, CARD // (512 << 20))):
        status, out, err = run(script, backend)
        assert (status, out.split()[-2:]) == (0, ["loaded", str(most)]), err
        assert "out of memory" in err


def test_what_debian_does_not_have_is_known(programs):
    """A package that comes or goes changes what the tests above can show."""
    assert programs.absent == ({"rocm-opencl-icd"} if programs.release == "5.2" else set())

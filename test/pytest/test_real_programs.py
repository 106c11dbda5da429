"""Programs that nobody here wrote, from Debian, on unmodified runtimes and under a limit: the small ones, on every release."""
import re
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "test" / "real"))
from real_pod import RELEASES  # noqa: E402
from real_programs import CARD, LIB, LIMIT, Programs  # noqa: E402

pytestmark = pytest.mark.slow  # the first run downloads

WITHOUT_UCX_ROCM = ("5.2",)  # Debian's UCX of that suite is built without it


# The first of a release downloads: one worker waits for it.
@pytest.fixture(params=[pytest.param(release, marks=pytest.mark.xdist_group(f"programs-{release}")) for release in RELEASES])
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


def test_what_debian_does_not_have_is_known(programs):
    """A package that comes or goes changes what the tests above can show."""
    assert programs.absent == ({"rocm-opencl-icd"} if programs.release == "5.2" else set())

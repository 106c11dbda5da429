"""ROCm's OpenCL and rocminfo, unmodified: what they say of the memory, and what they get of it."""
import re
import subprocess

import pytest
from conftest import BUILD, LIBRARY, MIB, ROOT, compile_c
from card import EMULATION, assert_books_are_true, end, pod_on, said  # noqa: F401

pytestmark = pytest.mark.xdist_group("programs-5.7")


def start(pod, program, *arguments, limit, audit=True):
    root = subprocess.run([ROOT / "test" / "real" / "programs", "5.7"], check=True, capture_output=True, text=True).stdout.strip()
    libs = f"{root}/usr/lib/x86_64-linux-gnu"
    vendors = pod.folder / "vendors"
    vendors.mkdir(exist_ok=True)
    (vendors / "amd.icd").write_text(f"{libs}/libamdocl64.so\n")
    command = [f"{libs}/ld-linux-x86-64.so.2", "--library-path", libs, *(("--audit", LIBRARY) if audit else ()), "--preload",
               EMULATION / "libkfdemu.so", str(program).replace("ROOT", root), *arguments]
    environment = pod.environment(OCL_ICD_VENDORS=vendors, HIP_DEVICE_MEMORY_LIMIT=limit, KFDEMU_ORACLE=pod.state,
                                  KFDEMU_GPUS=1, KFDEMU_VRAM_MB=pod.cards[0],
                                  AMD_COMGR_CACHE_DIR=BUILD / "comgr-cache")
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    pod.processes.append(process)
    return process


@pytest.mark.parametrize("limit, expected", [("1G", 1024), (None, 4096)])
def test_clinfo_says_the_limit(pod_on, limit, expected):
    out = end(start(pod_on("5.7"), "ROOT/usr/bin/clinfo", limit=limit))
    assert re.search(r"Global memory size +(\d+)", out)[1] == str(expected * MIB)


@pytest.mark.parametrize("limit, expected", [("1G", 1024), (None, 4096)])
def test_rocminfo_says_the_limit_of_every_pool_of_the_gpu(pod_on, tmp_path, limit, expected):
    out = end(start(pod_on("5.7"), "ROOT/usr/bin/rocminfo", limit=limit))
    gpu = out[out.rindex("Device Type:             GPU") if "Device Type:             GPU" in out else 0:]
    sizes = re.findall(r"Segment: +GLOBAL.*?Size: +(\d+)", gpu, re.S)
    assert sizes and set(sizes) == {str(expected * 1024)}, out


def test_opencl_buffers_are_those_that_a_card_of_the_limits_size_would_give(pod_on):
    program = compile_c("test/card/opencl_buffers.c", "opencl_buffers")
    answers = []
    for name, card, limit, audit in (("card", 1024, None, False), ("limit", 8192, "1G", True)):
        pod = pod_on("5.7", name, cards=(card,))
        client = start(pod, program, "64", limit=limit, audit=audit)
        answers.append(said(client))
        if audit:
            assert_books_are_true(pod)
            assert pod.peak() <= 1024 * MIB
    assert answers[0] == answers[1]
    assert "total=1024 " in answers[1] and "count=1" in answers[1]

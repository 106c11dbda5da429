"""OpenMP offload: LLVM's plugin for AMD, as Debian builds it, above the unmodified runtimes."""
import os
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD, MIB, ROOT
from card import assert_books_are_true, end, go_on, parameters, pod_on, said  # noqa: F401

PLUGIN = pathlib.Path("/usr/lib/llvm-14/lib/libomptarget.rtl.amdgpu.so")


@pytest.fixture(scope="module")
def program():
    output = BUILD / "test" / "openmp"
    scratch = output.with_suffix(f".{os.getpid()}")  # another worker may be running it
    output.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["clang-14", "-O1", "-nogpulib", "-fopenmp", "-fopenmp-targets=amdgcn-amd-amdhsa",
                    "-Xopenmp-target=amdgcn-amd-amdhsa", "-march=gfx90a", "-o", scratch, ROOT / "test" / "card" / "openmp.c"],
                   check=True)
    scratch.rename(output)
    return output


def libraries(folder):
    """What the plugin and libomptarget need beside the runtime's own libraries, which stand before these."""
    for library in (PLUGIN, PLUGIN.parent / "libomptarget.so", PLUGIN.parent / "libomp.so.5"):
        (folder / library.name).symlink_to(library)
        needed = subprocess.run(["ldd", library], text=True, capture_output=True, check=True).stdout
        for name, path in re.findall(r"(\S+) => (/\S+)", needed):
            if not (folder / name).exists() and name != "libc.so.6":
                (folder / name).symlink_to(path)
    return folder


@parameters()
def test_openmp_offload_gets_what_a_card_of_the_limits_size_gives(pod_on, tmp_path, program, release):
    """Refused at the HSA tier; the globals are loaded by the first mapping and are the driver's to count, so that
    11 blocks fit and not 12."""
    (tmp_path / "lib").mkdir()
    path = libraries(tmp_path / "lib")
    answers = []
    for name, card, limit in (("card", 256, None), ("limit", 4096, "256M")):
        pod = pod_on(release, name, cards=(card,))
        client = pod.start(program, limit=limit, audit=limit is not None, LD_LIBRARY_PATH=path)
        lines = []
        for _ in range(4):
            lines.append(said(client))
            if limit and pod.state.exists():
                assert_books_are_true(pod)
            go_on(client)
        end(client)
        answers.append(lines)
        assert pod.peak() <= 256 * MIB
    assert answers[0] == answers[1]
    assert answers[1] == ["devices 1", "mapped 1, then 0 of 200M", "blocks 11", "freed"]

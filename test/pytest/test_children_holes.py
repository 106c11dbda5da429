"""What stays open, each as it is: nobody who reads these names can believe that the library is a wall."""
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import AMVGPU, clean_environment

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "test" / "children"))
import pods  # noqa: E402
from pods import AT, CARD, KEPT, LIBRARY_AT, PATH, SPECIFICATION  # noqa: E402

pytestmark = pytest.mark.xdist_group("children")
CHILD = f"{AT}/child"


@pytest.fixture(scope="module")
def pod():
    """Without a specification and without the guard: all there is comes from the parent."""
    with pods.Pod("trixie", specification={"PATH": PATH}) as pod:
        yield pod


@pytest.mark.parametrize("program", ("raw", "raw_static", "raw_musl", "by_hand"))
def test_known_hole_what_such_a_program_starts_has_no_limit_without_the_guard(pod, program):
    assert pod.says([f"{AT}/{program}", CHILD], SPECIFICATION) == CARD


def test_known_hole_a_tracer_can_empty_the_environment_on_its_way_into_the_kernel(pod):
    """strace can write to the arguments of a system call; so can any debugger."""
    with pods.Pod("trixie", specification={"PATH": PATH}, launchers=True) as traced:
        poke = "-e inject=execve:poke_enter=@arg3=0000000000000000:when=1"
        assert traced.says(f"strace -f -o /dev/null {poke} sh -c 'exec {CHILD}'", SPECIFICATION) == CARD
        assert traced.says(f"strace -f -o /dev/null sh -c 'exec {CHILD}'", SPECIFICATION) == KEPT


def test_known_hole_a_program_of_a_pid_namespace_of_its_own_writes_its_own_pod_specification():
    """The ceiling still holds, for it is inherited; an exemption can be forged so."""
    forge = f"unshare --pid --fork --propagation unchanged --mount-proc env AMVGPU_EXEMPT={CHILD} sh -c '{CHILD}; :'"
    with pods.Pod("trixie", specification={"PATH": PATH}, launchers=True) as pod:
        assert pod.says(f"unshare --pid --fork --propagation unchanged --mount-proc sh -c '{CHILD}; :'", SPECIFICATION) == KEPT
        assert pod.says(forge, SPECIFICATION).startswith("limit=16384M")


def test_known_hole_a_child_may_name_a_region_of_its_own(pod):
    """HIP_DEVICE_MEMORY_SHARED_CACHE is restored where it is lost, not pinned: another file has books of its own."""
    assert pod.says(f"HIP_DEVICE_MEMORY_SHARED_CACHE=/tmp/mine {CHILD}", SPECIFICATION) == KEPT
    assert "/tmp/mine" in pod.says("ls /tmp/mine", {"PATH": PATH})


def test_doctor_names_a_process_that_has_the_driver_open_without_the_library(tmp_path):
    process = tmp_path / "proc" / "4194299"
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "3").symlink_to("/dev/kfd")
    (process / "comm").write_text("static one\n")
    (process / "maps").write_text("")
    assert "pid 4194299 (static one)" in unwatched(tmp_path)


@pytest.mark.parametrize("state", ("has the library", "has no driver", "is another container's"))
def test_doctor_does_not_name_a_process_that(tmp_path, state):
    process = tmp_path / "proc" / "4194299"
    (process / "fd").mkdir(parents=True)
    (process / "ns").mkdir()
    (tmp_path / "proc" / "self" / "ns").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "ns" / "mnt").symlink_to("mnt:[1]")
    (process / "ns" / "mnt").symlink_to("mnt:[2]" if state.startswith("is another") else "mnt:[1]")
    (process / "fd" / "3").symlink_to("/dev/null" if state.startswith("has no") else "/dev/kfd")
    (process / "maps").write_text(f"7f0000000000-7f0000001000 r-xp 00000000 00:00 1 {LIBRARY_AT}\n" if "library" in state else "")
    assert unwatched(tmp_path) == []


def unwatched(sysroot):
    done = subprocess.run([AMVGPU, "doctor", "--json", "--no-probe", "--sysroot", sysroot], env=clean_environment(), text=True,
                          capture_output=True)
    return [f["detail"] for f in json.loads(done.stdout)["findings"] if f["code"] == "PROCESS_UNWATCHED"]


def test_every_hole_here_has_a_line_in_the_document():
    text = (TOP / "docs" / "children.md").read_text()
    for word in ("static", "musl", "system call", "symbol table", "ptrace", "pid namespace", "HIP_DEVICE_MEMORY_SHARED_CACHE", "AT_SECURE", "dmem"):
        assert re.search(word, text), word

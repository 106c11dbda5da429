"""The guard in /etc/ld.so.preload: what starts without the library is started again with it, and notices nothing else."""
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "test" / "children"))
import pods  # noqa: E402
from pods import AT, CARD, KEPT, LIBRARY_AT, SPECIFICATION  # noqa: E402

pytestmark = [pytest.mark.xdist_group("children")]
CHILD = f"{AT}/child"


@pytest.fixture(scope="module", params=pods.SUITES)
def pod(request):
    with pods.Pod(request.param, guard=True) as pod:
        yield pod


def test_the_guard_needs_nothing_and_exports_one_word():
    dynamic = subprocess.run(["readelf", "-dW", "--dyn-syms", pods.GUARD], capture_output=True, text=True, check=True).stdout
    assert "(NEEDED)" not in dynamic
    named = [line.split()[6:] for line in dynamic.splitlines() if " DEFAULT " in line and line.split()[-1] != "UND"]
    assert [n[-1] for n in named] == ["amvgpu_guard_is_active"]


def test_a_program_from_nowhere_is_limited_as_the_pod_says(pod):
    assert pod.says([CHILD, "a b", "", "*"], {}) == KEPT + " arguments=a b||*"


def test_without_the_guard_it_would_not_be(pod):
    with pods.Pod(pod.root.name.split("-")[0]) as bare:
        assert bare.says([CHILD], {}) == CARD


def test_what_the_process_has_of_its_own_stays_its_own(pod):
    environment = {"HIP_DEVICE_MEMORY_LIMIT_0": "512m", "HSA_CU_MASK": "0:0-63", "A": "b c"}
    assert pod.says([CHILD], environment) == "limit=512M mask=0:0-7"
    assert "A=b c" in pod.run(["/usr/bin/env"], environment).stdout.splitlines()


def test_pid_descriptors_and_signals_are_kept(pod):
    script = ("import os, signal, sys; print(os.getpid(), os.getcwd(), os.read(7, 9).decode(), "
              "sorted(signal.pthread_sigmask(0, [])), signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN)")
    code = ("import os, signal, sys\nr, w = os.pipe()\nos.write(w, b'through')\nos.dup2(r, 7)\n"
            "signal.signal(signal.SIGUSR1, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])\n"
            "print(os.getpid())\nsys.stdout.flush()\n"
            f"os.execve('{AT}/start', ['start', '--', '/usr/bin/python3', '-c', {script!r}], {{}})")
    first, second = pod.run(["/usr/bin/python3", "-c", code], SPECIFICATION).stdout.splitlines()
    pid, _, text, *rest = second.split(" ", 3)
    assert (pid, text) == (first, "through")
    assert "SIGUSR2" in rest[0] and rest[0].endswith("True")


@pytest.mark.parametrize("environment", ({}, SPECIFICATION))
def test_a_script_runs_as_it_is_called(pod, environment):
    pod.run("printf '#!/bin/sh\\necho \"$0 $*\"\\n' >/tmp/script; chmod 755 /tmp/script", SPECIFICATION)
    assert pod.says(["/tmp/script", "a b", "c"], environment) == "/tmp/script a b c"


def test_a_deleted_program_runs_again(pod):
    delete = (f"import os, shutil; shutil.copy('{CHILD}', '/tmp/gone'); f = os.open('/tmp/gone', os.O_RDONLY); os.unlink('/tmp/gone'); "
              f"os.dup2(f, 9); os.execv('{AT}/start', ['start', '--', '/proc/self/fd/9', 'x'])")
    assert pod.says(["/usr/bin/python3", "-c", delete]) == KEPT + " arguments=x"


def test_a_program_in_memory_runs_again(pod):
    memory = (f"import os; f = os.memfd_create('m', 0); os.write(f, open('{CHILD}', 'rb').read()); "
              f"os.execv('{AT}/start', ['start', '--', f'/proc/self/fd/{{f}}', 'x'])")
    assert pod.says(["/usr/bin/python3", "-c", memory]) == KEPT + " arguments=x"


def test_a_program_that_is_an_argument_of_the_loader_runs_again(pod):
    assert pod.says(["/lib64/ld-linux-x86-64.so.2", CHILD, "y"], {}) == KEPT + " arguments=y"
    assert pod.says(["/lib64/ld-linux-x86-64.so.2", CHILD, "y"], SPECIFICATION) == KEPT + " arguments=y"


def test_its_children_are_limited_by_the_library(pod):
    assert pod.says(["/bin/sh", "-c", f"env -i env -i {CHILD} z"], {}) == KEPT + " arguments=z"


def test_an_environment_variable_does_not_forge_that_the_library_is_there(pod):
    for forged in ({"LD_AUDIT": "/nowhere/libamvgpu.so"}, {"LD_AUDIT": ""},
                   {"amvgpu_guard_is_active": "1"}):
        assert pod.says([CHILD], forged) == KEPT


def test_a_library_that_cannot_be_loaded_is_tried_once(pod):
    suite = pod.root.name.split("-")[0]
    broken = {**SPECIFICATION, "LD_AUDIT": "/tmp/libamvgpu.so"}
    with pods.Pod(suite, guard=True, specification=broken) as other:
        assert other.says([CHILD], {}) == CARD  # no such file: the program goes on as it is
        other.run("echo garbage >/tmp/libamvgpu.so")
        assert other.says([CHILD], {}) == "limit=16384M mask=0:0-7"


def test_a_set_user_id_program_starts_and_its_children_are_limited(pod):
    """The program itself runs without: ld.so takes no library by path there."""
    pod.run(f"cp {CHILD} /tmp/suid; chmod 4755 /tmp/suid; mkdir -p /tmp/rw", SPECIFICATION)
    assert pod.says(["/tmp/suid"], {}, user=1000).startswith("limit=16384M")


def test_the_operators_exemption_counts_in_the_pod_specification_only(pod):
    suite = pod.root.name.split("-")[0]
    exempt = {"AMVGPU_EXEMPT": f"/bin/nothing:{CHILD}"}
    with pods.Pod(suite, guard=True, specification=SPECIFICATION | exempt) as other:
        assert other.says([CHILD], {}) == CARD
        assert other.says([CHILD], {"LD_AUDIT": LIBRARY_AT, "HIP_DEVICE_MEMORY_LIMIT_0": "1024m"}) == CARD
        assert other.says(f"cp {CHILD} /tmp/child; env -i /tmp/child", {}) == KEPT
        assert other.says(f"env -i {CHILD}", SPECIFICATION) == CARD
    assert pod.says([CHILD], exempt) == KEPT
    assert pod.says([CHILD], SPECIFICATION | exempt) == KEPT


def test_with_the_library_there_the_guard_costs_less_than_a_tenth_of_a_millisecond(pod):
    """The fastest of many starts, with and without, taken in turns."""
    suite = pod.root.name.split("-")[0]
    measure = ("import os, time\ndef once():\n t = time.perf_counter(); p = os.posix_spawn('/bin/true', ['true'], os.environ); "
               "os.waitpid(p, 0); return time.perf_counter() - t\nprint(sorted(once() for _ in range(300))[15])")
    with pods.Pod(suite) as bare:
        costs = []
        for _ in range(5):
            with_guard = float(pod.says(["/usr/bin/python3", "-c", measure], SPECIFICATION))
            costs.append(with_guard - float(bare.says(["/usr/bin/python3", "-c", measure], SPECIFICATION)))
    assert min(costs) < 0.0001, costs

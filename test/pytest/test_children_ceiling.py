"""What a process was given is the ceiling for whatever it starts, also where no pod specification says anything."""
import json
import subprocess
import sys

import pytest
from conftest import LIBRARY

GIVEN = {"HIP_DEVICE_MEMORY_LIMIT_0": "1024m", "HIP_DEVICE_MEMORY_LIMIT_1": "2G", "HSA_CU_MASK": "0:0-7", "AMD_TASK_PRIORITY": "1",
         "HIP_VISIBLE_DEVICES": "0,1"}
LIMITS = ("HIP_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT")
SHOW = "import json, os; print(json.dumps(dict(os.environ)))"


def child_of(given, asked, log_level=None, launcher="spawn"):
    """The environment that a child is started with which is to get asked, and what the parent said."""
    launch = {"spawn": "import os, sys; os.waitpid(os.posix_spawn(sys.argv[1], [sys.argv[1], '-SEc', sys.argv[2]], asked), 0)",
              "exec": "import os, sys; os.execve(sys.argv[1], [sys.argv[1], '-SEc', sys.argv[2]], asked)",
              "system": "import os, sys, shlex; os.environ.clear(); os.environ.update(asked); "
                        "os.system(' '.join(map(shlex.quote, ['exec', sys.argv[1], '-SEc', sys.argv[2]])))"}[launcher]
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LD_AUDIT": str(LIBRARY), **given}
    if log_level:
        environment["LIBHIP_LOG_LEVEL"] = log_level
    done = subprocess.run(["/usr/bin/python3", "-SEc", f"asked = {asked!r}\n{launch}", "/usr/bin/python3", SHOW], env=environment,
                          text=True, capture_output=True, timeout=60)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.stderr


def ours(environment):
    names = (*LIMITS, "HSA_CU_MASK", "AMD_TASK", "HIP_OVERSUBSCRIBE", "HIP_VISIBLE", "ROCR")
    return {k: v for k, v in environment.items() if k.startswith(names)}


@pytest.mark.parametrize("launcher", ("spawn", "exec", "system"))
@pytest.mark.parametrize("asked", (
    {}, {"HIP_DEVICE_MEMORY_LIMIT_0": "1025m"}, {"HIP_DEVICE_MEMORY_LIMIT_0": "0"}, {"HIP_DEVICE_MEMORY_LIMIT_0": ""},
    {"HIP_DEVICE_MEMORY_LIMIT_0": "1.5G"}, {"HIP_DEVICE_MEMORY_LIMIT_0": "99999999999999999999999"},
    {"HIP_DEVICE_MEMORY_LIMIT_1": "3G"}, {"HSA_CU_MASK": "0:0-63"}, {"HSA_CU_MASK": ""}, {"AMD_TASK_PRIORITY": "0"}))
def test_a_child_that_is_to_have_more_or_nothing_gets_the_same(asked, launcher):
    child, _ = child_of(GIVEN, asked, launcher=launcher)
    assert ours(child) == GIVEN


@pytest.mark.parametrize("asked", ({"HIP_DEVICE_MEMORY_LIMIT_0": "512M"}, {"HIP_DEVICE_MEMORY_LIMIT_1": "1"},
                                   {"HIP_DEVICE_MEMORY_LIMIT_0": "1048576K"}, {"HIP_VISIBLE_DEVICES": "1"}))
def test_what_is_smaller_or_a_childs_own_to_choose_stays(asked):
    child, said = child_of(GIVEN, asked)
    assert ours(child) == GIVEN | asked
    assert said == ""


def limit_of(environment, device):
    """As the library reads it: a device's own first."""
    return environment.get(f"HIP_DEVICE_MEMORY_LIMIT_{device}", environment.get("HIP_DEVICE_MEMORY_LIMIT"))


@pytest.mark.parametrize("given,asked,expected", (
    # One limit for all: a device's own must not be more, another's may be less.
    ({"HIP_DEVICE_MEMORY_LIMIT": "1G"}, {"HIP_DEVICE_MEMORY_LIMIT_0": "2G"}, ("1G", "1G")),
    ({"HIP_DEVICE_MEMORY_LIMIT": "1G"}, {"HIP_DEVICE_MEMORY_LIMIT_1": "0"}, ("1G", "1G")),
    ({"HIP_DEVICE_MEMORY_LIMIT": "1G"}, {"HIP_DEVICE_MEMORY_LIMIT_0": "1M"}, ("1M", "1G")),
    ({"HIP_DEVICE_MEMORY_LIMIT": "1G"}, {"HIP_DEVICE_MEMORY_LIMIT": "4G"}, ("1G", "1G")),
    ({"HIP_DEVICE_MEMORY_LIMIT": "1G"}, {"HIP_DEVICE_MEMORY_LIMIT": "4M"}, ("4M", "4M")),
    # A device's own limit and a child's for all: the smaller holds.
    ({"HIP_DEVICE_MEMORY_LIMIT_0": "1G"}, {"HIP_DEVICE_MEMORY_LIMIT": "512M"}, ("512M", "512M")),
    ({"HIP_DEVICE_MEMORY_LIMIT_0": "1G"}, {"HIP_DEVICE_MEMORY_LIMIT": "2G"}, ("1G", "2G")),
    ({"HIP_DEVICE_MEMORY_LIMIT_0": "1G", "HIP_DEVICE_MEMORY_LIMIT": "2G"}, {"HIP_DEVICE_MEMORY_LIMIT": "3G"}, ("1G", "2G")),
    # What sets no limit here sets no ceiling.
    ({"HIP_DEVICE_MEMORY_LIMIT_0": "0"}, {"HIP_DEVICE_MEMORY_LIMIT_0": "5G"}, ("5G", None)),
    # The old name is handed on under the new one, which comes before it.
    ({"CUDA_DEVICE_MEMORY_LIMIT_0": "1G"}, {}, ("1G", None)),
    ({"CUDA_DEVICE_MEMORY_LIMIT": "1G"}, {"CUDA_DEVICE_MEMORY_LIMIT": "2G"}, ("1G", "1G")),
    ({"CUDA_DEVICE_MEMORY_LIMIT": "1G"}, {"HIP_DEVICE_MEMORY_LIMIT_1": "2G"}, ("1G", "1G")),
))
def test_no_way_of_writing_a_limit_gets_a_child_more(given, asked, expected):
    child, _ = child_of(given, asked)
    assert (limit_of(child, 0), limit_of(child, 1)) == expected


def test_a_process_that_was_given_nothing_starts_whatever_it_likes():
    asked = {"HIP_DEVICE_MEMORY_LIMIT_0": "5G", "HSA_CU_MASK": "0:0-63", "AMD_TASK_PRIORITY": "0"}
    child, said = child_of({}, asked)
    assert ours(child) == asked
    assert said == ""


@pytest.mark.parametrize("audit", ("{ours}", "{ours}:/no/other.so", "/no/other.so:{ours}", ":{ours}:"))
def test_a_child_gets_our_library_alone_of_the_list_of_audit_libraries(audit):
    child, _ = child_of({"LD_AUDIT": audit.format(ours=LIBRARY)}, {})
    assert child["LD_AUDIT"] == str(LIBRARY)


def test_a_library_of_any_name_is_handed_on(tmp_path):
    renamed = tmp_path / "slice.so"
    renamed.write_bytes(LIBRARY.read_bytes())
    child, _ = child_of({"LD_AUDIT": str(renamed)}, {})
    assert child["LD_AUDIT"] == str(renamed)


def test_very_long_values_and_very_many_limits_are_handed_on_whole():
    given = {f"HIP_DEVICE_MEMORY_LIMIT_{i}": f"{i + 1}G" for i in range(64)}
    given |= {"HSA_CU_MASK": ";".join(f"{i}:0-103" for i in range(64)) + "," * 20000, "ROCR_VISIBLE_DEVICES": "x" * 30000}
    child, said = child_of(given, {})
    assert ours(child) == given
    assert said == ""


def test_the_programs_own_writes_to_its_initial_environment_do_not_reach_the_list():
    """As setproctitle writes: over the texts of the initial block."""
    script = ("import ctypes, os\n"
              "environ = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), 'environ')\ni = 0\n"
              "while environ[i]:\n s = ctypes.string_at(environ[i]); ctypes.memset(environ[i], ord('x'), len(s)); i += 1\n"
              "os.execve('/usr/bin/env', ['env'], {})")
    environment = {"LC_ALL": "C", "LD_AUDIT": str(LIBRARY), **GIVEN}
    done = subprocess.run(["/usr/bin/python3", "-SEc", script], env=environment, text=True, capture_output=True)
    assert {**GIVEN, "LD_AUDIT": str(LIBRARY)}.items() <= dict(line.split("=", 1) for line in done.stdout.splitlines()).items()


def test_the_first_attempt_is_logged_and_no_other():
    script = ("import os\nfor i in range(3):\n os.waitpid(os.posix_spawn('/bin/true', ['true'], "
              "{'HIP_DEVICE_MEMORY_LIMIT_0': '9G'}), 0)")
    environment = {"LD_AUDIT": str(LIBRARY), **GIVEN}
    done = subprocess.run(["/usr/bin/python3", "-SEc", script], env=environment, text=True, capture_output=True)
    assert len(done.stderr.splitlines()) == 1
    assert "more than this one was given" in done.stderr
    quiet = subprocess.run(["/usr/bin/python3", "-SEc", script], env={**environment, "LIBHIP_LOG_LEVEL": "1"}, text=True,
                           capture_output=True)
    assert quiet.stderr == ""


def test_an_attempt_is_shown_with_the_slot_of_the_process_that_made_it(pod):
    """A program that uses the card and starts another by posix_spawn."""
    script = """
import ctypes, os, sys
hip = ctypes.CDLL("libamdhip64.so.7")
pointer = ctypes.c_void_p()
hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 20))
os.waitpid(os.posix_spawn("/bin/true", ["true"], {"HIP_DEVICE_MEMORY_LIMIT_0": "9G"}), 0)
print("started", flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", script], env=pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="1G"),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    shown = json.dumps(pod.status())
    process.communicate()
    assert "CHILD_RAISE_IGNORED" in shown


@pytest.mark.parametrize("way", ("setenv", "putenv", "clear"))
def test_a_program_that_clears_its_environment_stays_under_the_limit_in_its_child(pod, way):
    """The end of the chain: what the stand-in card really gives."""
    change = {"setenv": "os.environ['HIP_DEVICE_MEMORY_LIMIT_0'] = '8G'", "putenv": "os.putenv('HIP_DEVICE_MEMORY_LIMIT_0', '')",
              "clear": "os.environ.clear()"}[way]
    names = ("LD_LIBRARY_PATH", "SOFTGPU_STATE", "HIP_DEVICE_MEMORY_SHARED_CACHE")
    child = """
import ctypes
hip = ctypes.CDLL("libamdhip64.so.7")
pointer = ctypes.c_void_p()
print(hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t((1 << 30) + 1)), hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 30)))
"""
    script = f"import os, subprocess, sys\nkept = {{n: os.environ[n] for n in {names!r}}}\n{change}\n" \
             f"os.environ.update(kept)\nsubprocess.run([sys.executable, '-c', {child!r}])"
    done = subprocess.run([sys.executable, "-c", script], env=pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="1G"), text=True,
                          capture_output=True, timeout=60)
    assert done.stdout.split() == ["2", "0"], done.stderr

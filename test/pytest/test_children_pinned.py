"""The pinned variables hold, whatever a program does to its environment: for the runtime, for itself, for its children."""
import json
import subprocess

import pytest

PINNED = {"HSA_CU_MASK": "0:0-7", "AMD_TASK_PRIORITY": "1", "HIP_OVERSUBSCRIBE": "true", "HSA_CU_MASK_SKIP_INIT": ""}
OTHER = {"HSA_CU_MASK": "0:0-63", "AMD_TASK_PRIORITY": "0", "HIP_OVERSUBSCRIBE": "0", "HSA_CU_MASK_SKIP_INIT": "1"}
NEEDED = ("LD_LIBRARY_PATH", "SOFTGPU_LOG", "SOFTGPU_STATE", "HIP_DEVICE_MEMORY_SHARED_CACHE")

PRELUDE = f"""
import ctypes, json, os, subprocess, sys
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
other, needed = {OTHER!r}, {{n: os.environ[n] for n in {NEEDED!r} if n in os.environ}}
kept = []
def block(entries):
    array = (ctypes.c_char_p * (len(entries) + 1))(*[e.encode() for e in entries], None)
    kept.append(array)
    return array
def direct():
    i = 0
    while environ[i]:
        name = environ[i].decode().split("=")[0]
        if name in other:
            kept.append(ctypes.create_string_buffer((name + "=" + other[name]).encode()))
            environ[i] = ctypes.cast(kept[-1], ctypes.c_char_p)
        i += 1
def hand_over(entries):
    ctypes.c_void_p.in_dll(libc, "environ").value = ctypes.addressof(block(entries))
def started():
    pointer = ctypes.c_void_p()
    hip = ctypes.CDLL("libamdhip64.so.7")
    hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(4096))
def seen():
    return {{n: "(unset)" if libc.getenv(n.encode()) is None else libc.getenv(n.encode()).decode() for n in other}}
"""

CHANGES = {
    "setenv": "for n, v in other.items(): libc.setenv(n.encode(), v.encode(), 1)",
    "putenv": "for n, v in other.items():\n kept.append(ctypes.create_string_buffer(f'{n}={v}'.encode())); libc.putenv(kept[-1])",
    "unsetenv": "for n in other: libc.unsetenv(n.encode())",
    "clearenv": "libc.clearenv()\nfor n, v in needed.items(): libc.setenv(n.encode(), v.encode(), 1)",
    "os.environ": "os.environ.update(other)",
    "os.environ cleared": "os.environ.clear(); os.environ.update(needed)",
    "a write to an entry": "direct()",
    "another block in environ": "hand_over([f'{n}={v}' for n, v in (other | needed).items()])",
    "an empty block in environ": "hand_over([f'{n}={v}' for n, v in needed.items()])",
}


def run(pod, script, **variables):
    environment = pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="1G", **(PINNED | variables))
    done = subprocess.run(["/usr/bin/python3", "-c", PRELUDE + script], env=environment, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("change", CHANGES)
def test_the_runtime_starts_with_the_mask_the_process_was_given(pod, tmp_path, change):
    log = tmp_path / "log"
    run(pod, f"{CHANGES[change]}\nstarted()", SOFTGPU_LOG=log)
    starts = [line for line in log.read_text().splitlines() if "hsa_init" in line]
    assert len(starts) == 1
    assert "HSA_CU_MASK=0:0-7 " in starts[0] and "HSA_CU_MASK_SKIP_INIT=1" not in starts[0]


@pytest.mark.parametrize("change", CHANGES)
def test_getenv_answers_what_was_given_before_and_after_the_runtime_starts(pod, change):
    script = f"{CHANGES[change]}\nprint(json.dumps(seen()))\nstarted()\nprint(json.dumps(seen()))\n{CHANGES[change]}\nprint(json.dumps(seen()))"
    for answer in run(pod, script):
        assert answer == PINNED


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("start", ("os.execv('/usr/bin/python3', ['python3', '-c', child])", "os.system('/usr/bin/python3 -c \"%s\"' % child)",
                                   "libc.execl(b'/usr/bin/python3', b'python3', b'-c', child.encode(), None)"),
                         ids=("execv", "system", "execl"))
def test_a_child_is_started_with_what_was_given(pod, change, start):
    child = "import json, os; print(json.dumps(dict(os.environ)))"
    shown, = run(pod, f"{CHANGES[change]}\nchild = {child!r}\nsys.stdout.flush()\n{start}")
    assert {n: shown.get(n) for n in PINNED} == PINNED
    assert shown["HIP_DEVICE_MEMORY_LIMIT_0"] == "1G"


@pytest.mark.parametrize("change", CHANGES)
def test_a_mask_set_after_the_start_has_no_effect_on_new_queues(pod, tmp_path, change):
    log = tmp_path / "log"
    run(pod, f"started()\n{CHANGES[change]}\nstarted()\nhip = ctypes.CDLL('libamdhip64.so.7')\n"
             "stream = ctypes.c_void_p()\nassert hip.hipStreamCreate(ctypes.byref(stream)) == 0\nassert hip.hipStreamSynchronize(stream) == 0",
        SOFTGPU_LOG=log)
    masks = {word.split("=", 1)[1] for line in log.read_text().splitlines() for word in line.split() if word.startswith("cu_mask=")}
    assert masks <= {"0:0-7"}
    assert any("queue" in line for line in log.read_text().splitlines())

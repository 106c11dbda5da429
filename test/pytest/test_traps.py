"""Ways of writing and running programs that trip up libraries like ours: each is a sentence about a program under us."""
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from conftest import BUILD, LIBRARY, ROOT, STANDIN, Pod, compile_c

sys.path.insert(0, str(ROOT / "test" / "war"))
from mutant import build as build_mutant  # noqa: E402

MOST = 4096  # how many blocks the program tries for
FULL = "filled 64 2\n"
UNLIMITED = f"filled {MOST} 0\n"
NOBODY = "65534"
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
# What the library can do without, by number on x86-64: after its start none of these is needed to enforce.
SYSTEM_CALLS = {"openat": 257, "fcntl": 72, "madvise": 28, "pidfd_open": 434, "mkdirat": 258, "flock": 73, "fallocate": 285,
                "ftruncate": 77, "kill": 62, "readlink": 89, "readlinkat": 267, "newfstatat": 262, "fstat": 5, "mremap": 25,
                "sched_yield": 24, "linkat": 265, "renameat": 264, "unlinkat": 263, "fchmod": 91, "pread64": 17, "read": 0,
                "nanosleep": 35, "clock_nanosleep": 230, "getrandom": 318, "rt_sigaction": 13, "sigaltstack": 131, "ioctl": 16}


def shared(source, name, compiler="gcc"):
    """Compiles a library that is preloaded or audits."""
    output = BUILD / "test" / name
    output.parent.mkdir(parents=True, exist_ok=True)
    if not output.exists() or output.stat().st_mtime < (ROOT / source).stat().st_mtime:
        scratch = output.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", scratch, ROOT / source, "-ldl"], check=True)
        scratch.rename(output)
    return output


@pytest.fixture
def trap(pod):
    """Runs the program that fills its card of 64 MiB in one of its unusual ways; what it says."""
    program = compile_c("test/traps/trap.c", "trap")

    def run(*arguments, rc=0, popen={}, **environment):
        environment.setdefault("HIP_DEVICE_MEMORY_LIMIT_0", "64M")
        done = subprocess.run([program, *map(str, arguments)], env=pod.environment(**environment), text=True,
                              capture_output=True, timeout=120, **popen)
        assert done.returncode == rc, done.stdout + done.stderr
        return done.stdout if rc == 0 else done.stderr
    run.pod, run.program = pod, program
    return run


def leave(pod, what, **environment):
    """exit hangs in its very last step, writing to a full pipe, when all libraries have been closed. The exit status."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with open(write_end, "wb", buffering=0) as pipe:
        while pipe.write(bytes(4096)):
            pass
        os.set_blocking(write_end, True)
        program = subprocess.Popen([compile_c("test/traps/leave.c", "leave"), what], stdout=pipe,
                                   env=pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="1G", **environment))
        time.sleep(0.3)
    with open(read_end, "rb") as pipe:
        text = pipe.read()
    assert program.wait() or text.endswith(b"left\n")
    return program.returncode


@pytest.mark.parametrize("where", ("hip", "libc"))
def test_a_program_may_exit_while_its_threads_are_in(pod, where):
    assert leave(pod, where) == 0


@pytest.mark.slow
def test_it_crashes_with_a_library_that_forgets_the_originals_at_exit(pod, tmp_path):
    library = build_mutant(ROOT, tmp_path, "forgets the originals at exit")
    assert leave(pod, "hip", LD_AUDIT=library) == -signal.SIGSEGV


# ---- static TLS and stacks ----

def test_a_program_that_preloads_jemalloc_does_not_start_without_room_for_its_tls(trap):
    """A known hole of glibc: any audit library, even an empty one, takes the room away (README)."""
    assert "static TLS" in trap(LD_PRELOAD=JEMALLOC, rc=127)
    empty = shared("test/traps/audit.c", "audit.so")
    assert "static TLS" in trap(LD_PRELOAD=JEMALLOC, LD_AUDIT=empty, rc=127)


def test_a_program_that_preloads_jemalloc_is_limited_with_the_tunable(trap):
    assert trap(LD_PRELOAD=JEMALLOC, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=8192") == FULL


def test_a_child_that_preloads_jemalloc_starts_without_being_told(trap):
    """Programs that are started by an audited one get the tunable."""
    done = subprocess.run(["/usr/bin/env", f"LD_PRELOAD={JEMALLOC}", trap.program], text=True, capture_output=True,
                          env=trap.pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="64M"))
    assert done.stdout == FULL


@pytest.mark.parametrize("stack", (16 << 10, 32 << 10, 64 << 10))
def test_a_thread_with_a_small_stack_can_use_the_card(trap, stack):
    assert trap("stack", stack) == FULL


@pytest.mark.parametrize("stack", (20 << 10, 32 << 10))
def test_with_the_tunable_a_thread_with_a_small_stack_can_use_the_card(trap, stack):
    """The tunable's room comes out of every stack, under any audit library: of 16 KiB too little may be left for HIP."""
    assert trap("stack", stack, GLIBC_TUNABLES="glibc.rtld.optional_static_tls=8192") == FULL


# ---- other libraries ----

def test_a_runtime_in_a_namespace_of_its_own_is_limited(trap):
    assert trap("dlmopen") == FULL


@pytest.mark.parametrize("order", ("ours first", "ours last"))
def test_another_audit_library_changes_nothing(trap, order):
    other = shared("test/traps/audit.c", "audit.so")
    both = [LIBRARY, other] if order == "ours first" else [other, LIBRARY]
    assert trap(LD_AUDIT=":".join(map(str, both))) == FULL


def test_what_goes_through_a_preloaded_wrapper_of_hipmalloc_is_counted_once(trap):
    assert trap(LD_PRELOAD=shared("test/traps/saver.c", "saver.so")) == FULL


def test_a_profiler_between_hip_and_hsa_changes_nothing(trap):
    assert trap(LD_PRELOAD=shared("test/traps/interposer.cc", "interposer.so", "g++")) == FULL


# ---- leaving a call by another door ----

def interposed(trap, *what):
    return trap(*what, LD_PRELOAD=shared("test/traps/interposer.cc", "interposer.so", "g++"))


@pytest.mark.slow
@pytest.mark.parametrize("what", ("deferred", "asynchronous"))
def test_a_thread_that_is_cancelled_in_a_call_leaves_that_calls_bytes_charged_and_nothing_else(trap, what):
    """Nothing can be known of such a call: its 4096 bytes stay announced until the process ends. A known hole: whoever asks
    for what they stand in the way of waits for the deadline of 10 s before it is refused."""
    assert interposed(trap, what) == "filled 63 2\n"


@pytest.mark.parametrize("where", ("here", "deeper"))
@pytest.mark.parametrize("what, said", (("throw", "caught"), ("jump", "jumped")))
def test_a_thread_that_leaves_a_call_by_an_exception_or_a_jump_is_limited_in_its_next(trap, what, said, where):
    """The exception itself gets through. The call's bytes stay announced, as above."""
    assert interposed(trap, what, where) == f"{said}\nthen 2\n"


# ---- signals, descriptors, limits ----

def test_ten_thousand_signals_a_second_disturb_nothing_at_the_limit(trap):
    assert trap("storm") == FULL


@pytest.mark.parametrize("close", ("2>&-", "0<&- 2>&-"))
def test_closed_standard_descriptors_make_no_difference(trap, close):
    script = f'exec {close}; exec "$0" plain'
    done = subprocess.run(["bash", "-c", script, trap.program], text=True, stdout=subprocess.PIPE, timeout=60,
                          env=trap.pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="64M", LIBHIP_LOG_LEVEL="4"))
    assert done.stdout == FULL


def test_an_environment_of_a_mebibyte_is_read_to_its_end(trap):
    padding = {f"PADDING_{i}": "x" * 100000 for i in range(11)}
    assert trap(**padding, HIP_DEVICE_MEMORY_LIMIT_0=None, HIP_DEVICE_MEMORY_LIMIT="64M") == FULL


def limited(which, value):
    return {"preexec_fn": lambda: resource.setrlimit(which, (value, value))}


def test_a_program_that_may_open_nothing_more_is_limited_on_its_own(trap):
    """Under ulimit -n 3 nothing dynamic starts, so the limit of descriptors comes when the runtime is loaded."""
    assert trap("nofile", 3) == FULL


@pytest.mark.parametrize("mebibytes", (96, 256, 1024))
def test_a_program_with_little_address_space_is_limited(trap, mebibytes):
    small = limited(resource.RLIMIT_AS, mebibytes << 20)
    without = trap(LD_AUDIT=None, popen=small)
    assert trap(popen=small) == (without if int(without.split()[1]) < 64 else FULL)


@pytest.mark.parametrize("names", [(n,) for n in SYSTEM_CALLS] + [tuple(SYSTEM_CALLS)], ids="+".join)
def test_a_seccomp_filter_that_forbids_what_is_not_needed_lifts_no_limit(trap, names):
    assert trap("deny", ",".join(str(SYSTEM_CALLS[n]) for n in names)) == FULL


def test_a_program_that_closes_every_descriptor_shares_the_limit_all_the_same(trap):
    first = subprocess.Popen([trap.program, "no-descriptors", "stay"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=trap.pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="64M"))
    assert first.stdout.readline() == FULL
    assert trap() == "filled 0 2\n"
    first.communicate("")
    assert trap() == FULL


@pytest.fixture
def open_folder():
    """One that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="trap-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o777)
        yield folder


def test_a_program_that_becomes_another_user_shares_the_limit_all_the_same(trap, open_folder):
    """Needs root, as containers give it."""
    pod, everybody = Pod(open_folder), {"preexec_fn": lambda: os.umask(0)}
    environment = pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="64M")
    first = subprocess.Popen([trap.program, "uid", NOBODY, "stay"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=environment, **everybody)
    assert first.stdout.readline() == FULL
    assert subprocess.run([trap.program], env=environment, text=True, capture_output=True).stdout == "filled 0 2\n"
    first.communicate("")
    assert subprocess.run([trap.program], env=environment, text=True, capture_output=True).stdout == FULL


def test_a_set_id_program_is_not_limited(trap, open_folder):
    """A known hole: glibc ignores LD_AUDIT where a program has more rights than its user; amvgpu doctor finds these."""
    program = open_folder / "trap"
    shutil.copy(trap.program, program)
    os.chown(program, int(NOBODY), int(NOBODY))
    program.chmod(0o4755)
    environment = Pod(open_folder).environment(HIP_DEVICE_MEMORY_LIMIT_0="64M", HIPSH_RUNTIME=STANDIN / "libamdhip64.so.7",
                                               SOFTGPU_STATE=None)
    assert subprocess.run([program], env=environment, text=True, capture_output=True).stdout == UNLIMITED

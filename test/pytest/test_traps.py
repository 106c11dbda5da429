"""Ways of writing and running programs that trip up libraries like ours: each is a sentence about a program under us."""
import os
import subprocess
import time

from conftest import compile_c


def test_a_program_may_exit_while_its_threads_are_in_the_runtime(pod):
    program = compile_c("test/traps/leave.c", "leave")
    environment = pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="1G")
    ends = [subprocess.run([program, "hip"], env=environment).returncode for _ in range(60)]
    assert ends == [0] * 60


def test_a_program_may_exit_while_its_threads_call_libc(pod):
    """exit hangs in its very last step, writing to a full pipe, when all libraries have been closed."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with open(write_end, "wb", buffering=0) as pipe:
        while pipe.write(bytes(4096)):
            pass
        os.set_blocking(write_end, True)
        program = subprocess.Popen([compile_c("test/traps/leave.c", "leave"), "libc"], stdout=pipe,
                                   env=pod.environment(HIP_DEVICE_MEMORY_LIMIT_0="1G"))
        time.sleep(0.3)
    with open(read_end, "rb") as pipe:
        assert pipe.read().endswith(b"left\n")
    assert program.wait() == 0

"""The documented one-line gcc commands, and every other unit test, each as it stands."""
import re
import subprocess

import pytest
from conftest import BUILD, ROOT, clean_environment

DOCUMENTED = {
    **{t: "gcc -o {out} test/{t}.c -I src/hip" for t in ("test_alloc_tracker", "test_env_policy", "test_memory_size")},
    **{t: "gcc -O2 -pthread -o {out} test/{t}.c src/multiprocess/hip_multiprocess_memory_limit.c"
       for t in ("test_reserve", "test_shrreg", "test_init", "test_retry")},
}


def build_and_run(command, name, suffix=""):
    out = BUILD / "test" / "documented" / name
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(command.format(out=out, t=name).split(), cwd=ROOT, check=True)
    result = subprocess.run([f"{out}{suffix}"], cwd=ROOT, env=clean_environment(), text=True, capture_output=True, timeout=300)
    print(result.stdout, result.stderr)
    assert result.returncode == 0
    assert re.fullmatch(r"[1-9]\d* passed, 0 failed", result.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_documented_command_builds_and_passes(name):
    build_and_run(DOCUMENTED[name], name)


def test_the_cu_mask_is_read_as_rocr_reads_it():
    build_and_run("gcc -Wall -o {out} test/{t}.c -I src/hip", "test_cu_mask")


@pytest.mark.sanitizer
@pytest.mark.parametrize("name", ("test_alloc_tracker", "test_env_policy", "test_memory_size", "test_cu_mask"))
def test_pure_modules_have_no_finding_of_address_and_undefined_sanitizer(name):
    flags = "-g -fsanitize=address,undefined -fno-sanitize-recover=all"
    build_and_run(f"gcc {flags} -o {{out}}-asan test/{{t}}.c -I src/hip", name, "-asan")

"""The unit tests of src/loader, with and without sanitizers, and a short run of its fuzzer."""
import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
ELF = sorted(TOP.glob("src/loader/elf_*.c"))
PROGRAM = [TOP / "src" / "loader" / "program_libc.c", *ELF]
WARNINGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]
SANITIZERS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]


def build_and_run(tmp_path, flags, *sources):
    program = tmp_path / "test"
    subprocess.run(["gcc", *WARNINGS, *flags, "-o", program, *sources], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(", 0 failed\n")


@pytest.mark.parametrize("flags", [["-O2"], SANITIZERS], ids=["plain", "sanitized"])
def test_reading_and_patching_an_object_is_as_its_unit_tests_say(tmp_path, flags):
    build_and_run(tmp_path, ["-DELF_PATCH_TEST", *flags], TOP / "test" / "test_elf_object.c", *ELF)


@pytest.mark.parametrize("flags", [["-O2"], SANITIZERS], ids=["plain", "sanitized"])
def test_what_is_looked_up_in_libc_is_bound_as_its_unit_tests_say(tmp_path, flags):
    build_and_run(tmp_path, ["-DELF_PATCH_TEST", *flags], TOP / "test" / "test_demand.c", *ELF)


@pytest.mark.parametrize("flags", [["-O2", "-pie", "-fPIE"], ["-O2", "-no-pie", "-fno-pie"], SANITIZERS],
                         ids=["pie", "fixed_address", "sanitized"])
def test_the_programs_libc_is_found_as_its_unit_tests_say(tmp_path, flags):
    build_and_run(tmp_path, flags, TOP / "test" / "test_program_libc.c", *PROGRAM)


@pytest.mark.parametrize("flags", [["-O2"], SANITIZERS], ids=["plain", "sanitized"])
def test_an_environment_is_mended_as_its_unit_tests_say(tmp_path, flags):
    build_and_run(tmp_path, flags, TOP / "test" / "test_exec.c", *PROGRAM)


def test_no_damage_to_the_dynamic_section_makes_the_loader_step_out_of_the_object(tmp_path):
    program = tmp_path / "fuzz"
    subprocess.run(["clang-14", *WARNINGS, "-g", "-O1", "-fsanitize=fuzzer,address,undefined",
                    "-fno-sanitize-recover=undefined", "-DELF_PATCH_TEST", "-o", program,
                    TOP / "test" / "fuzz" / "fuzz_elf.c", *ELF], check=True)
    seconds = os.environ.get("AMVGPU_FUZZ_SECONDS", "60")
    done = subprocess.run([program, f"-max_total_time={seconds}", "-max_len=2500", "-timeout=20", "-verbosity=0"],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

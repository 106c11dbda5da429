"""The ledger's C tests: built as the README says, each must pass; freestanding, it must need nothing."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/multiprocess/hip_multiprocess_memory_limit.c"
BUILD = ROOT / "build/test/ledger"
FREESTANDING = ("-ffreestanding -nostdlib -fPIC -fvisibility=hidden -fno-stack-protector -ftls-model=initial-exec "
                "-Wall -Wextra -Werror -std=gnu11 -O2").split()
UNITS = ["test_ledger_file", "test_ledger_scale", "test_ledger_identity", "test_ledger_view",  # the others: test_units.py
         *(pytest.param(f"crash/test_ledger_{name}", marks=pytest.mark.slow) for name in ("crash", "storm"))]


def run(*command, **options):
    return subprocess.run([str(c) for c in command], check=True, text=True, capture_output=True, **options).stdout


def build(unit, *flags, suffix=""):
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / (pathlib.Path(unit).name + suffix)
    run("gcc", *(flags or ["-O2"]), "-Wall", "-Wextra", "-Werror", "-pthread", "-o", program, ROOT / f"test/{unit}.c",
        SOURCE)
    return program


def passes(program, *arguments, env=None):
    done = subprocess.run([program, *arguments], text=True, capture_output=True, timeout=300, env=env)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert re.fullmatch(r"[1-9]\d* passed, 0 failed", done.stdout.splitlines()[-1])


@pytest.mark.parametrize("unit", UNITS)
def test_every_claim_of_the_unit_holds(unit):
    passes(build(unit))


@pytest.mark.sanitizer
@pytest.mark.parametrize("unit", ["test_reserve", "test_shrreg", "test_retry", "test_ledger_view"])
def test_it_holds_under_the_address_and_undefined_behaviour_sanitizers(unit):
    program = build(unit, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", suffix="-asan")
    passes(program, env={**os.environ, "ASAN_OPTIONS": "handle_sigbus=0:detect_leaks=0"})


@pytest.mark.sanitizer
@pytest.mark.parametrize("unit", ["test_reserve", "test_init"])
def test_it_holds_under_the_thread_sanitizer(unit):
    passes(build(unit, "-O1", "-g", "-fsanitize=thread", suffix="-tsan"))


@pytest.mark.parametrize("compiler", [c for c in ("gcc", "clang") if shutil.which(c)])
def test_freestanding_it_needs_no_symbol_and_has_no_testpoint(compiler, tmp_path):
    run(compiler, *FREESTANDING, "-c", "-o", tmp_path / "ledger.o", SOURCE)
    undefined = {line.split()[-1] for line in run("nm", "-u", tmp_path / "ledger.o").splitlines()}
    assert undefined <= {"memcpy", "memset", "memmove", "memcmp"}
    assert "testpoint" not in run("nm", tmp_path / "ledger.o")


def test_freestanding_it_uses_no_floating_point_and_no_vector_it_was_not_given(tmp_path):
    run("gcc", *FREESTANDING, "-mgeneral-regs-only", "-c", "-o", tmp_path / "ledger.o", SOURCE)

"""libFuzzer on the text that pods and programs hand us: the kept corpus, then new inputs for AMVGPU_FUZZ_SECONDS (default 60)."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT

FUZZ = ROOT / "test/fuzz"
SECONDS = os.environ.get("AMVGPU_FUZZ_SECONDS", "60")

# target: a header, and what makes it wrong
TARGETS = {
    "size": ("memory_size.h", r"__builtin_mul_overflow\(a, b, &product\) \? SIZE_TOO_LARGE : product", "(product = a * b)"),
    "environment": ("env_policy.h", r"env_variables\[i\]\.treatment == ENV_PINNED \|\| !mine", "!mine"),
    "visible": ("env_policy.h", r"while \(length && list\[length - 1\] == ' '\)", "while (list[length - 1] == ' ')"),
    "mask": ("cu_mask.h", r"is_mine && cu <= last && cu < CU_MASK_BITS", "is_mine && cu <= last && cu <= CU_MASK_BITS"),
}


def fuzz(root, target, folder, seconds):
    program = folder / f"fuzz_{target}"
    subprocess.run(["clang", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=fuzzer,address,undefined",
                    "-fno-sanitize-recover=undefined", root / f"test/fuzz/fuzz_{target}.c", "-o", program], check=True)
    (folder / "new").mkdir()
    dictionary = [f"-dict={FUZZ}/{target}.dict"] if (FUZZ / f"{target}.dict").exists() else []
    return subprocess.run([program, f"-max_total_time={seconds}", "-max_len=1024", "-timeout=20", f"-artifact_prefix={folder}/",
                           *dictionary, folder / "new", FUZZ / "corpus" / target], text=True, capture_output=True,
                          timeout=float(seconds) + 240, cwd=folder)


@pytest.mark.sanitizer
@pytest.mark.parametrize("target", TARGETS)
def test_no_text_is_misread_or_reads_too_far(target, tmp_path):
    done = fuzz(ROOT, target, tmp_path, SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Done " in done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_a_header_that_is_wrong_in_one_place_is_found_out(target, tmp_path):
    header, pattern, replacement = TARGETS[target]
    for folder in ("src/hip", "src/sys", "test/fuzz"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    broken = tmp_path / "src/hip" / header
    text, count = re.subn(pattern, replacement, broken.read_text())
    assert count == 1
    broken.write_text(text)
    done = fuzz(tmp_path, target, tmp_path, 60)
    assert done.returncode != 0 and "Test unit written to" in done.stderr, done.stderr[-2000:]


@pytest.mark.sanitizer
@pytest.mark.parametrize("unit", ("test_ledger_identity", "test_ledger_file"))
@pytest.mark.parametrize("sanitizer", ("address,undefined", "thread"))
def test_the_ledger_among_processes_has_no_finding_of_sanitizers(unit, sanitizer, tmp_path):
    """What test_ledger_units leaves out."""
    program = tmp_path / unit
    subprocess.run(["gcc", "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-pthread", "-o", program,
                    ROOT / f"test/{unit}.c", ROOT / "src/multiprocess/hip_multiprocess_memory_limit.c"], check=True)
    done = subprocess.run([program], text=True, capture_output=True, timeout=300,
                          env=os.environ | {"ASAN_OPTIONS": "handle_sigbus=0:detect_leaks=0"})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.sanitizer
def test_the_tracker_has_no_finding_of_the_thread_sanitizer(tmp_path):
    """Eight threads on one table."""
    program = tmp_path / "tracker"
    subprocess.run(["gcc", "-O1", "-g", "-fsanitize=thread", "-pthread", "-o", program, ROOT / "test/fuzz/race_tracker.c"], check=True)
    done = subprocess.run([program], text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]

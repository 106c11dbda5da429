"""What a call costs in instructions inside libamvgpu.so: a bound that every machine can hold us to.

The baseline is bench/instructions.json; `python3 bench/instructions.py` records it anew after a change that is meant.
"""
import json
import shutil
import subprocess
import sys

import pytest
from conftest import LIBRARY, ROOT

sys.path.insert(0, str(ROOT / "bench"))
import instructions  # noqa: E402
import measure  # noqa: E402

BOUND = 1.10
BASELINE = json.loads(instructions.BASELINE.read_text())["instructions"]
pytestmark = pytest.mark.xdist_group("cost")


@pytest.fixture(scope="module", autouse=True)
def programs():
    measure.BUILD.mkdir(parents=True, exist_ok=True)
    measure.build_cost()


@pytest.mark.parametrize("operation", instructions.OPERATIONS)
def test_a_call_takes_no_more_than_a_tenth_more_instructions_than_recorded(operation):
    assert instructions.per_call(LIBRARY, operation) <= BOUND * BASELINE[operation]


@pytest.mark.parametrize("operation", instructions.OPERATIONS)
def test_the_record_is_no_more_than_a_tenth_above_what_a_call_takes(operation):
    """Else the bound would not notice that what was won is lost again."""
    assert instructions.per_call(LIBRARY, operation) * BOUND >= BASELINE[operation]


def test_a_pair_takes_no_more_beside_64_processes():
    """Far from the limit it reads no row but its own."""
    assert instructions.per_call(LIBRARY, "hipMalloc+hipFree", slots=64) <= BASELINE["hipMalloc+hipFree"] * 1.02


def test_a_pair_that_works_an_eighth_longer_is_over_the_bound(tmp_path):
    """The bound can fail: the same library with so many idle instructions in hipMalloc alone."""
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src")
    shutil.copy(ROOT / "CMakeLists.txt.hip", source / "CMakeLists.txt")
    gate = source / "src" / "hip" / "gate.c"
    idle = int(BASELINE["hipMalloc+hipFree"] / 8) + 1
    text = gate.read_text()
    head = next(line for line in text.splitlines() if line.startswith("bool gate_reserve("))
    assert text.count(head + "\n{\n") == 1
    gate.write_text(text.replace(head + "\n{\n", f'{head}\n{{\n\t__asm__ volatile(".rept {idle}\\n\\tnop\\n\\t.endr");\n'))
    for command in (["cmake", "-S", source, "-B", tmp_path / "build"], ["cmake", "--build", tmp_path / "build", "--parallel", "2"]):
        subprocess.run(command, check=True, capture_output=True)
    assert instructions.per_call(tmp_path / "build" / "libamvgpu.so", "hipMalloc+hipFree") > BOUND * BASELINE["hipMalloc+hipFree"]

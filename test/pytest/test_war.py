"""The random war (test/war/war), that it can be lost, and what it has found."""
import json
import os
import re
import subprocess
import sys

import pytest
from conftest import MIB, ROOT

sys.path.insert(0, str(ROOT / "test" / "war"))
from mutant import MUTANTS, build  # noqa: E402

SECONDS = float(os.environ.get("AMVGPU_WAR_SECONDS", "60"))


def war(*options):
    return subprocess.run([ROOT / "test/war/war", "--json", *map(str, options)], text=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize("release", (57, 64, 72))
def test_at_every_quiet_point_of_a_random_war_books_card_and_programs_agree(release):
    done = war("--seconds", SECONDS / 3, "--release", release)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["rounds"] >= 3 and figures["refused"] > 0 and figures["killed"] > 0 and figures["accounts_compared"] > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MUTANTS if MUTANTS[name][3]])
def test_the_war_is_lost_by_a_library_that(name, tmp_path):
    done = war("--seed", 1, "--seconds", 60, "--library", build(ROOT, tmp_path, name))
    assert done.returncode == 1, f"won: {done.stdout}"
    assert re.search(MUTANTS[name][3], done.stderr), done.stderr

@pytest.mark.parametrize("runtime, left", [(5, MIB), (6, MIB), (7, 0)])
def test_a_reset_gives_back_handles_where_the_runtime_does(pod, runtime, left):
    pod.runtime = runtime
    hip = pod.run("1G")
    hip.ok("create a 1M 0")
    hip.ok("reset")
    (region,) = pod.status()["regions"]
    assert region["devices"][0]["requested_bytes"] == left == pod.oracle()["devices"]["0"]["held"]

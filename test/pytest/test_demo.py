"""./demo, as the README's reader runs it."""
import subprocess

import pytest
from conftest import ROOT, clean_environment


def demo(*arguments):
    result = subprocess.run(["./demo", *arguments], cwd=ROOT, env=clean_environment(), text=True, capture_output=True,
                            timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def shows_the_limit(output):
    sections = output.split("\n\x1b[1m")
    assert len(sections) == 6
    assert "got 2048 MiB" in sections[1]
    assert "got 2048 MiB" not in sections[2] and "the limit holds" in sections[2]
    assert "hipMalloc(768 MiB) returned 0" in sections[3] and "the limit holds" in sections[3]
    free = int(sections[3].split("hipMemGetInfo: free ")[1].split()[0])
    assert free <= 256
    assert "of 1024 MiB" in sections[4] and "hipMalloc of twice as much: 2" in sections[4]


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_the_demo_shows_the_limit_on_the_stand_in_device():
    shows_the_limit(demo())


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
@pytest.mark.parametrize("version", ("7.2", "6.4", "5.7", "5.2"))
def test_the_demo_shows_the_limit_on_the_unmodified_runtime(version):
    shows_the_limit(demo("--rocm", version))


def test_an_unknown_runtime_is_named_in_the_error():
    result = subprocess.run(["./demo", "--rocm", "9.9"], cwd=ROOT, env=clean_environment(), text=True,
                            capture_output=True, timeout=600)
    assert result.returncode != 0 and "9.9" in result.stderr

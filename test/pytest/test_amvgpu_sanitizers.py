"""The tests of amvgpu again, on a build with address, leak and undefined-behaviour sanitizers."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
from tool import BUILD, ROOT, exclusive, quietly  # noqa: E402

FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"


@pytest.mark.slow
@pytest.mark.sanitizer
@pytest.mark.parametrize("what", ["status", "metrics", "env", "run", "top"])
def test_no_sanitizer_complains(what):
    folder = BUILD / "sanitized"
    with exclusive("sanitized"):
        quietly("cmake", "-S", ROOT / "tools/amvgpu", "-B", folder, "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_C_FLAGS={FLAGS}")
        quietly("cmake", "--build", folder)
    done = subprocess.run(["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", ROOT / f"test/pytest/test_amvgpu_{what}.py"],
                          capture_output=True, text=True, env=os.environ | {"AMVGPU_TOOL": str(folder / "amvgpu")}, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4000:]

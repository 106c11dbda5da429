"""libFuzzer on the region: the kept corpus, then new inputs for AMVGPU_FUZZ_SECONDS (default 10)."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = [ROOT / "test/fuzz/fuzz_region.c", ROOT / "src/multiprocess/hip_multiprocess_memory_limit.c"]


def test_arbitrary_bytes_as_region_are_survived(tmp_path):
    program = tmp_path / "fuzz_region"
    subprocess.run(["clang", "-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=undefined",
                    *map(str, SOURCES), "-o", str(program)], check=True, capture_output=True, text=True)
    new = tmp_path / "new"
    new.mkdir()
    seconds = os.environ.get("AMVGPU_FUZZ_SECONDS", "60")
    done = subprocess.run([program, f"-max_total_time={seconds}", "-max_len=2048", "-timeout=30", "-handle_bus=0",
                           f"-artifact_prefix={tmp_path}/", str(new), str(ROOT / "test/fuzz/corpus/region")],
                          text=True, capture_output=True, timeout=int(seconds) + 240, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "Done " in done.stderr

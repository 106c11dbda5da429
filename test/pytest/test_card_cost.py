"""What the physical tier costs those who have nothing to do with it."""
import re
import subprocess

from conftest import LIBRARY, clean_environment, compile_c


def test_a_command_that_is_none_of_ours_and_a_close_cost_next_to_nothing(tmp_path):
    """Aim: 5 ns or less, printed. The bound is for a machine that others load: no more than a quarter of the bare call."""
    program = compile_c("test/card/ioctl_cost.c", "ioctl_cost")
    environment = clean_environment(LD_AUDIT=LIBRARY, HIP_DEVICE_MEMORY_LIMIT="1G",
                                    HIP_DEVICE_MEMORY_SHARED_CACHE=tmp_path / "region")
    symbols = subprocess.run(["readelf", "-W", "--dyn-syms", "/lib/x86_64-linux-gnu/libc.so.6"], text=True, capture_output=True,
                             check=True).stdout
    offsets = [re.search(rf"([0-9a-f]+) +\d+ FUNC .* {name}@@", symbols)[1] for name in ("ioctl", "close")]
    rows = subprocess.run([program, *offsets], env=environment, text=True, capture_output=True, check=True).stdout.splitlines()
    print(*rows, sep="\n")
    assert len(rows) == 4
    for row in rows:
        name, same, added, bare = row.split()
        assert same == "same=0", f"{name} is not bound"
        assert float(added) < float(bare) / 4, row

"""The random war (test/war/war), that it can be lost, and what it has found."""
import pytest
from conftest import MIB


@pytest.mark.parametrize("runtime, left", [(5, MIB), (6, MIB), (7, 0)])
def test_a_reset_gives_back_handles_where_the_runtime_does(pod, runtime, left):
    pod.runtime = runtime
    hip = pod.run("1G")
    hip.ok("create a 1M 0")
    hip.ok("reset")
    (region,) = pod.status()["regions"]
    assert region["devices"][0]["requested_bytes"] == left == pod.oracle()["devices"]["0"]["held"]

"""What the matrix does not ask row by row: ends of programs, the vendor's crashes, deaths, sharing, oversubscription."""
import sys

import pytest
from conftest import GIB, MIB, ROOT

sys.path.insert(0, str(ROOT / "test" / "real"))
from real_pod import RELEASES, RealPod  # noqa: E402


@pytest.fixture
def make_pod(tmp_path):
    pods = []

    def make(release, **options):
        folder = tmp_path / f"pod{len(pods)}"
        folder.mkdir()
        pods.append(RealPod(folder, release, **options))
        return pods[-1]

    yield make
    for pod in pods:
        pod.close()


def takes_from_pools(hip):
    """Allocations of 100 MiB from a stream's pool until one is refused; how many there were."""
    hip.ok("stream s")
    for count in range(40):
        answer = hip(f"async a{count} 100M s")
        if answer.error:
            assert answer.error == 2
            return count
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("release", RELEASES)
def test_a_pool_at_the_pods_limit_is_refused_and_the_program_ends_well(make_pod, release):
    pod = make_pod(release)
    hip = pod.run("1G")
    count = takes_from_pools(hip)
    assert 8 <= count <= 10
    assert hip("last").error == 2
    assert pod.given() <= GIB
    hip.ok("freeasync a0 s")
    hip.ok("sync s")
    hip.ok("async b 50M s")
    error = hip.end()
    assert hip.process.returncode == 0, error


def test_a_pool_on_a_full_card_crashes_7_2_4_by_itself(make_pod):
    hip = make_pod("7.2", vram_mb=1024).run(None, audit=None)
    takes_from_pools(hip)
    hip.end()
    assert hip.process.returncode == -11, "the vendor's crash is gone: the fragile path can go"


@pytest.mark.parametrize("release", RELEASES)
def test_a_refused_program_ends_well_on_every_release(make_pod, release):
    hip = make_pod(release).run("256M")
    for line in ("malloc a 1G", "managed a 1G", "pitch a 65536 65536", "array a 65536 4096", "create a 1G 0"):
        assert hip(line).error == 2, line
    hip.ok("malloc a 64M")
    hip.end()
    assert hip.process.returncode == 0


@pytest.mark.parametrize("release", RELEASES)
def test_eight_threads_at_the_limit_never_pass_it(make_pod, release):
    pod = make_pod(release)
    hip = pod.run("128M")
    answer = hip("hammer 8 300 32M 1")
    assert answer.error == 0 and answer.granted > 0 and answer.refused > 0
    assert pod.books()[0] == 0
    assert pod.given(which="peak") <= 128 * MIB
    assert pod.books()[1] == pod.given()


@pytest.mark.parametrize("release", RELEASES)
def test_a_killed_processs_bytes_come_back(make_pod, release):
    pod = make_pod(release)
    first, second = pod.run("1G"), pod.run("1G")
    first.ok("malloc a 700M")
    assert second("malloc a 700M").error == 2
    first.kill()
    second.ok("malloc a 700M")
    assert pod.books()[0] == 700 * MIB


@pytest.mark.parametrize("release", RELEASES)
def test_memory_opened_by_another_process_is_charged_once(make_pod, release):
    pod = make_pod(release)
    owner, user = pod.run("1G"), pod.run("1G")
    owner.ok("malloc a 600M")
    user.ok("info")
    handle = owner.ok("ipcget a").values["handle"]
    user.ok(f"ipcopen b {handle} {0 if release[0] == '5' else 1}")
    assert pod.books()[0] == 600 * MIB and pod.books()[1] == pod.given()
    user.ok("ipcclose b")
    assert pod.books()[0] == 600 * MIB
    owner.ok("free a")
    assert pod.books()[0] == 0 and pod.books()[1] == pod.given()


@pytest.mark.parametrize("release", RELEASES)
def test_20_gib_on_a_16_gib_card_need_oversubscription(make_pod, release):
    without = make_pod(release).run("40G")
    assert without("malloc a 20G").error == 2
    assert without.ok("info").total == 16 * GIB
    pod = make_pod(release)
    hip = pod.run("40G", HIP_OVERSUBSCRIBE="true")
    hip.ok("malloc a 20G")
    assert hip.ok("info").total == 40 * GIB and hip.ok("info").free == 20 * GIB
    assert pod.books()[0] == 20 * GIB
    assert hip("malloc b 21G").error == 2 and hip("last").error == 2
    hip.ok("malloc c 20G")
    hip.ok("free a")
    hip.ok("free c")
    assert pod.books()[0] == 0

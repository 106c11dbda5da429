"""What no allocator was asked for: code, scratch, pools' chunks. It is counted, the next request is refused, nothing aborts."""
import pytest
from conftest import MIB
from card import SCRATCH_RESERVE, assert_books_are_true, code_object, parameters, pod_on  # noqa: F401

HSASH = "test/card/hsash.c"


def ended_well(program):
    error = program.end()
    assert program.process.returncode == 0, error


@parameters()
def test_a_small_limit_leaves_no_140_mib_of_scratch_behind(pod_on, release):
    pod = pod_on(release, cards=(16384,))
    hip = pod.run("128M")
    hip.ok("stream s")
    assert pod.given()[hip.pid][0] < 4 * MIB
    hip.ok("malloc a 90M")
    hip.ok("info")
    assert_books_are_true(pod)


@parameters()
def test_a_large_limit_has_the_runtimes_scratch_reserve_and_it_is_counted(pod_on, release):
    pod = pod_on(release, cards=(16384,))
    hip = pod.run("8G")
    hip.ok("stream s")
    assert (pod.given()[hip.pid][0] >= SCRATCH_RESERVE) == (release != "5.2")
    assert_books_are_true(pod)


@parameters()
def test_globals_over_the_limit_are_charged_and_the_next_request_is_refused(pod_on, release):
    pod = pod_on(release)
    hip = pod.run("100M")
    hip.ok("stream s")
    hip.ok("malloc a 60M")
    hip.ok(f"module m {code_object()}")  # 64 MiB: an overdraft
    assert pod.given()[hip.pid][0] > 124 * MIB
    assert_books_are_true(pod)
    assert hip.ok("info").free == 0
    assert hip("malloc b 1M").error == 2 or pod.given()[hip.pid][0] < 128 * MIB
    assert hip("malloc b 4M").error == 2
    hip.ok("function f m touch")
    hip.ok("kernel f 1 a")
    assert pod.peak() <= 100 * MIB + 65 * MIB  # the overdraft is the code, no more
    hip.ok("unload m")
    hip.ok("malloc b 16M")
    assert_books_are_true(pod)
    ended_well(hip)


def scratch_for(pod, bytes_a_work_item, audit, limit):
    """What a queue with so much private memory, and a request after it, are told; or the status the program died with."""
    hsa = pod.run(limit, audit=audit, shell=HSASH)
    hsa.ok("init")
    hsa.process.stdin.write(f"queue {bytes_a_work_item}\nfill 20M\n")
    hsa.process.stdin.close()
    said = hsa.process.stdout.read().split("\n")
    return said, hsa.process.wait()


@parameters()
@pytest.mark.parametrize("bytes_a_work_item", [256, 1024])
def test_scratch_that_does_not_fit_is_answered_as_on_a_small_card(pod_on, release, bytes_a_work_item):
    """ROCr asks what is available and is told what the limit leaves. 7.2.4 ends in an assertion of its own, on both."""
    card = scratch_for(pod_on(release, "card", cards=(64,)), bytes_a_work_item, audit=False, limit=None)
    pod = pod_on(release, "limit")
    assert scratch_for(pod, bytes_a_work_item, audit=True, limit="64M") == card
    assert pod.peak() <= 64 * MIB


@parameters()
def test_the_devices_heap_is_counted(pod_on, release):
    pod = pod_on(release)
    hip = pod.run("256M")
    hip.ok("stream s")
    hip("limit 2 64M")
    hip.ok(f"module m {code_object()}")
    hip.ok("function f m scratch")
    hip.ok("malloc a 1M")
    hip.ok("kernel f 4 a")
    assert_books_are_true(pod)
    ended_well(hip)


@parameters()
def test_a_pool_that_runs_out_is_refused_rolled_back_and_the_program_ends_well(pod_on, release):
    """7.2.4 alone releases a handle of 0 and dies at exit; 5.x says success with NULL."""
    pod = pod_on(release)
    hip = pod.run("512M")
    hip.ok("stream s")
    count = 0
    while not (answer := hip(f"async a{count} 20M s")).error:
        assert answer.ptr
        count += 1
        assert count < 30
    assert answer.error == 2 and hip("last").error == 2
    assert pod.given()[hip.pid][0] <= 512 * MIB, "what was overdrawn stays"
    assert pod.peak() <= (512 + 32) * MIB
    assert_books_are_true(pod)
    assert count == {"7.2": 22, "6.4": 25, "5.7": 25, "5.2": 25}[release]
    for i in range(count):
        hip.ok(f"freeasync a{i} s")
    hip.ok("sync s")
    hip.ok("async b 20M s")
    hip.ok("freeasync b s")
    hip.ok("sync s")
    hip.ok("defaultpool d 0")
    hip.ok("trim d")
    hip.ok("malloc c 100M")
    assert_books_are_true(pod)
    ended_well(hip)


def test_hole_of_the_runtime_a_card_that_runs_out_in_a_pool_kills_7_2(pod_on):
    """Why pools are rolled back and never told ENOMEM: the same program on a small card, with no library."""
    pod = pod_on("7.2", cards=(512,))
    hip = pod.run(limit=None, audit=False)
    hip.ok("stream s")
    for i in range(30):
        hip(f"async a{i} 20M s")
    for i in range(22):
        hip(f"freeasync a{i} s")
    hip.process.stdin.write("sync s\nasync b 20M s\nfreeasync b s\nmalloc c 100M\n")
    hip.end()
    assert hip.process.returncode != 0


def test_a_pools_block_that_takes_nothing_new_is_granted_though_the_pod_is_overdrawn(pod_on):
    pod = pod_on("7.2")
    hip = pod.run("128M")
    hip.ok("stream s")
    hip.ok("defaultpool d 0")
    hip.ok("threshold d 1T")
    hip.ok("async a 20M s")
    hip.ok("freeasync a s")
    hip.ok("sync s")
    hip.ok("malloc b 60M")
    hip.ok(f"module m {code_object()}")
    assert pod.given()[hip.pid][0] > 128 * MIB
    hip.ok("async a 20M s")
    assert hip("async c 40M s").error == 2
    assert_books_are_true(pod)
    ended_well(hip)


def test_eight_threads_in_pools_come_back_under_the_limit(pod_on):
    pod = pod_on("7.2")
    hip = pod.run("512M")
    hip.ok("stream s")
    answer = hip("hammer 8 200 40M 1 async")
    assert answer.error == 0 and answer.refused > 0
    hip.ok("devsync")
    hip.ok("defaultpool d 0")
    hip.ok("trim d")
    assert_books_are_true(pod)
    assert pod.given()[hip.pid][0] <= 512 * MIB
    assert pod.peak() <= (512 + 8 * 64) * MIB  # a request, in chunks, for each thread that asks at the same time
    ended_well(hip)


def test_hole_of_a_tiny_pod_a_pool_overdraws_by_more_than_a_chunk_and_keeps_it(pod_on):
    """7.2.4 gives no chunk of a pool back on a card of 256 MiB, or under such a limit; nor can a roll-back. The book says so."""
    pod = pod_on("7.2")
    hip = pod.run("256M")
    hip.ok("stream s")
    hip("hammer 1 300 40M 1 async")
    hip.ok("devsync")
    hip.ok("defaultpool d 0")
    hip.ok("trim d")
    assert pod.given()[hip.pid][0] > 256 * MIB
    assert_books_are_true(pod)
    assert hip("malloc a 4M").error == 2
    ended_well(hip)


@parameters("7.2", "6.4")
def test_ipc_is_charged_once_to_the_exporter(pod_on, release):
    pod = pod_on(release)
    exporter, importer = pod.run("512M"), pod.run("512M")
    exporter.ok("malloc a 200M")
    importer.ok("init")
    importer.ok("stream s")
    before = pod.charged()[importer.pid]
    handle = exporter.ok("ipcget a").values["handle"]
    importer.ok(f"ipcopen b {handle} 1")
    assert pod.charged()[importer.pid] == before
    assert_books_are_true(pod)
    assert importer("malloc c 320M").error == 2
    importer.ok("malloc c 200M")
    importer.ok("ipcclose b")
    assert_books_are_true(pod)
    exporter.ok("free a")
    assert_books_are_true(pod)

"""A limit of L on a larger card admits what a card of size L admits: the same program, on both, must get the same answers.

The cases are those in which the ways to count differ: rounding, the runtime's cache, pools that keep or give back, code, queues
and arrays. Where the answers differ by design the difference is in DIFFERENCES, with its reason; docs/accounting.md has
the table.
"""
import pytest
from conftest import MIB
from card import (RELEASES, SCRATCH_RESERVE, assert_books_are_true, code_object, heap_code_object, parameters,  # noqa: F401
                  pod_on)

BIG = 8192
HSASH = "test/card/hsash.c"


def count(hip, line, most=2000):
    """Calls LINE with a fresh name until it is refused: how often it was granted, and the error that ended it."""
    for i in range(most):
        answer = hip(line.replace("@", str(i)))
        if answer.error:
            return i, answer.error
    return most, 0


def cache_of_small_blocks(hip):
    for i in range(220):
        hip.ok(f"malloc a{i} 1536K")
    for i in range(220):
        if i % 4:
            hip.ok(f"free a{i}")
    return hip("malloc p 300M").error


def pool_reuse(hip):
    hip.ok("stream s")
    hip.ok("defaultpool d 0")
    hip.ok("threshold d 1T")
    first = hip("async p 300M s").error
    hip("freeasync p s")
    hip("sync s")
    return first, hip("async q 300M s").error


def pool_cache_against_malloc(hip):
    hip.ok("stream s")
    hip.ok("defaultpool d 0")
    hip.ok("threshold d 1T")
    first = hip("async p 300M s").error
    hip("freeasync p s")
    hip("sync s")
    return first, hip("malloc q 300M").error


def freed_without_a_synchronization(hip):
    hip.ok("stream s")
    first = hip("async p 300M s").error
    hip("freeasync p s")
    return first, hip("async q 300M s").error


def blocks_of_3_mib(hip):
    hip.ok("stream s")
    return count(hip, "malloc a@ 3M")


def blocks_of_1_and_a_half_mib(hip):
    hip.ok("stream s")
    return count(hip, "malloc a@ 1536K")


def blocks_of_4_kib_do_not_take_2_mib_each(hip):
    return hip("many 20000 4K").got


def pitched_rows(hip):
    return count(hip, "pitch a@ 5000 3000")


def volumes(hip):
    return count(hip, "malloc3d a@ 1000 1000 20")


def arrays_move_to_the_host_when_the_card_is_full(hip):
    """hipMallocArray says success beyond what a card has: the runtime gives host memory."""
    granted = count(hip, "array a@ 4096 4096", most=12)
    return granted, hip("malloc b 64M").error


def one_request_for_three_quarters_and_one_for_all(hip):
    three_quarters = hip("malloc a 384M").error
    hip("free a")
    return three_quarters, hip("malloc a 512M").error, hip("malloc a 513M").error


def handles(hip):
    return count(hip, "create h@ 20M 0")


def released_while_mapped(hip):
    hip("create h 300M 0")
    hip("reserve v 300M")
    hip("map v 300M h")
    hip("release h")
    during = hip("malloc a 300M").error
    hip("unmap v 300M")
    return during, hip("malloc a 300M").error


def refused_and_then_smaller(hip):
    first = hip("malloc a 600M").error, hip("last").error, hip("last").error
    return first, hip("malloc a 300M").error, hip("free a").error, hip("malloc a 300M").error


def ten_streams_and_then_full(hip):
    for i in range(10):
        hip.ok(f"stream s{i}")
    return count(hip, "malloc a@ 20M")


def a_module_and_then_full(hip):
    loaded = hip(f"module m {code_object()}").error
    granted = count(hip, "malloc a@ 20M")
    for i in range(granted[0]):
        hip.ok(f"free a{i}")
    hip("unload m")
    return loaded, granted, count(hip, "malloc b@ 20M")


def heap_of_the_device(hip):
    """5.2.3 has neither the call nor the heap; the others take it at the launch of the first kernel that uses it."""
    hip.ok("stream s")
    hip.ok("malloc a 1M")
    sized = hip("limit 2 64M").error
    hip.ok(f"module m {heap_code_object()}")
    hip.ok("function f m heap")
    launched = hip("kernel f 4 a").error
    return sized, launched, count(hip, "malloc b@ 20M")


def heap_of_the_device_on_a_full_card(hip):
    hip.ok("stream s")
    hip("limit 2 64M")
    hip.ok(f"module m {heap_code_object()}")
    hip.ok("function f m heap")
    granted = count(hip, "malloc b@ 20M")
    first = hip("kernel f 4 b0").error, hip("last").error, hip("malloc c 20M").error
    for i in range(5):
        hip.ok(f"free b{i}")
    return granted, first, hip("kernel f 4 b9").error, hip("last").error, count(hip, "malloc d@ 20M")


def stacks_of_kernels(hip):
    """Within what a wave can have (64 KiB of a work-item) and beyond it; the kernel's own is 16 KiB."""
    hip.ok("stream s")
    hip.ok("malloc a 1M")
    sized = hip("limit 0 64K").error, hip("limit 0 256K").error
    hip.ok(f"module m {code_object()}")
    hip.ok("function f m scratch")
    return sized, hip("kernel f 4 a").error, count(hip, "malloc b@ 20M")


def managed_memory_does_not_take_the_card(hip):
    return hip("managed a 400M").error, hip("malloc b 300M").error


def host_memory_does_not_take_the_card(hip):
    return hip("host a 256M").error, hip("malloc b 300M").error


def asynchronous_blocks_of_20_mib(hip):
    hip.ok("stream s")
    return count(hip, "async a@ 20M s", most=100)


def a_pool_of_ones_own(hip):
    hip.ok("stream s")
    hip.ok("mempool e 0")
    return count(hip, "frompool a@ 20M e s", most=100)


CASES = [case for name, case in sorted(globals().items())
         if callable(case) and getattr(case, "__module__", "") == __name__ and name not in ("count",)]

ARRAYS = ("the runtime gives host memory where the card is full; the requested book refuses an array that is over the limit",
          ((12, 0), 2), ((8, 2), 2))
MANAGED = ("managed memory is charged as requested: it may move to the card at any time", (0, 0), (0, 2))
SUCCESS_WITH_NULL = ("the runtime says success and gives NULL where memory ran out; the library says out of memory",
                     (100, 0), (25, 2))

# (case, release) -> (why, answer of the card, answer under the limit)
DIFFERENCES = {
    **{("arrays_move_to_the_host_when_the_card_is_full", release): ARRAYS for release in RELEASES},
    **{("managed_memory_does_not_take_the_card", release): MANAGED for release in RELEASES},
    ("a_pool_of_ones_own", "5.7"): SUCCESS_WITH_NULL,
    ("a_pool_of_ones_own", "5.2"): SUCCESS_WITH_NULL,
    ("asynchronous_blocks_of_20_mib", "5.2"): SUCCESS_WITH_NULL,
}


@parameters()
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_limit_admits_what_a_card_of_that_size_admits(pod_on, release, case):
    size = 512
    card = case(pod_on(release, "card", cards=(size,)).run(limit=None, audit=False))
    pod = pod_on(release, "limit", cards=(BIG,))
    limit = case(pod.run(f"{size}M"))
    if (case.__name__, release) in DIFFERENCES:
        assert (card, limit) == DIFFERENCES[case.__name__, release][1:]
    else:
        assert limit == card


def scratch_taken(pod):
    (card,) = pod.oracle()["processes"][0]["cards"]
    return card["kinds"]["scratch"]


@parameters()
@pytest.mark.parametrize("bytes_a_work_item", [64, 1024])
def test_queues_with_scratch_are_answered_as_on_a_card_of_that_size(pod_on, release, bytes_a_work_item):
    """Fits on 5.2.3 with 64 bytes (13 MiB a queue). From 5.7 on hsa_queue_create with private memory maps 0 bytes and fails on
    every card, also of 16 GiB; there scratch comes with a dispatch or from the reserve."""
    answers = []
    for name, card, limit in (("card", 512, None), ("limit", BIG, "512M")):
        pod = pod_on(release, name, cards=(card,))
        hsa = pod.run(limit, audit=limit is not None, shell=HSASH)
        hsa.ok("init")
        hsa.process.stdin.write(f"queue {bytes_a_work_item}\nqueue {bytes_a_work_item}\nfill 20M\n")
        hsa.process.stdin.close()
        answers.append((hsa.process.stdout.read(), hsa.process.wait(), scratch_taken(pod)["peak"]))
        assert pod.peak() <= 512 * MIB
    assert answers[1] == answers[0]
    assert (answers[1][2] > 0) == (release == "5.2" and bytes_a_work_item == 64)


@parameters()
@pytest.mark.parametrize("size", [1024, 1536, 2048])
def test_the_scratch_reserve_is_taken_where_a_card_of_that_size_has_it(pod_on, release, size):
    answers = []
    for name, card, limit in (("card", size, None), ("limit", BIG, f"{size}M")):
        pod = pod_on(release, name, cards=(card,))
        hip = pod.run(limit, audit=limit is not None)
        hip.ok("stream s")
        taken = scratch_taken(pod)["now"]
        answers.append((taken, count(hip, "malloc a@ 100M"), hip("streamdestroy s").error))
        if limit:
            assert_books_are_true(pod)
            assert pod.peak() <= size * MIB
    assert answers[1] == answers[0]
    assert answers[1][0] == (SCRATCH_RESERVE if size > 1024 and release != "5.2" else 0)

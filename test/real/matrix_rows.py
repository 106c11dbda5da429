"""The claims about FREE and HAND rows: each a function whose docstring is the claim. See matrix.py."""
from conftest import MIB
from matrix import LIMIT, RELEASES, YES

CLAIMS = {}  # row -> [Claim]


class Claim:
    def __init__(self, row, measure, since, unlike):
        self.row, self.since, self.unlike = row, since, unlike
        self.text = " ".join(measure.__doc__.split())
        self._measure = measure

    def measure(self, machine):
        return self._measure(machine) or YES

    def applies(self, release):
        return RELEASES[release] >= self.since

    def expected(self, release):
        return self.unlike.get(release, (YES,))[0]


def about(row, since=0, unlike=None):
    def add(function):
        CLAIMS.setdefault(row, []).append(Claim(row, function, since, unlike or {}))
        return function
    return add


def claims_about(row, release):
    return [claim for claim in CLAIMS.get(row, ()) if claim.applies(release)]


# ---- FREE: pointers. hipFree, hipFreeAsync, hipHostFree and hipFreeHost are one function to every release ----

POINTERS = {"hipMalloc": "malloc a 64M", "hipMallocManaged": "managed a 64M", "hipExtMallocWithFlags": "ext a 64M 0",
            "hipMallocPitch": "pitch a 65536 1024", "hipMallocAsync": "async a 64M s0",
            "hipMallocFromPoolAsync": "frompool a 64M p0 s0"}


def pointer_frees(row, line):
    @about(row)
    def frees_all(m):
        """gives back every kind of pointer"""
        for name, take in POINTERS.items():
            m.a.ok(take)
            assert m.requested() == 64 * MIB, name
            m.a.ok(line.format("a"))
            assert m.requested() == 0, name
        m.agree()

    @about(row)
    def frees_inside(m):
        """an address inside a block frees the block"""
        m.a.ok("malloc a 64M")
        m.a.ok(line.format("a+4097"))
        assert m.requested() == 0
        m.agree()

    @about(row)
    def frees_elsewhere(m):
        """counts for the device of the allocation, from any device and thread"""
        m.a.ok("device 1")
        m.a.ok("malloc a 64M")
        m.a.ok("malloc b 32M")
        m.a.ok("device 0")
        m.a.ok("malloc c 16M")
        m.a.ok(line.format("a"))
        assert (m.requested(0), m.requested(1)) == (16 * MIB, 32 * MIB)
        m.a.ok("thread " + line.format("b"))
        m.a.ok("thread " + line.format("c"))
        assert (m.requested(0), m.requested(1)) == (0, 0)
        m.agree()

    @about(row, unlike={} if row != "hipFreeAsync" else {
        "5.2": ("crashes", "5.2.3's hipFreeAsync of an unknown address crashes by itself; not run, but for NULL")})
    def frees_nothing(m):
        """NULL, an unknown address and a second time: the release's own answer, and no byte moves"""
        crashes = row == "hipFreeAsync" and m.number == 52
        m.a.ok("malloc kept 8M")
        for answer in (m.a, m.bare):
            answer.ok("malloc a 4M")
            answer.ok("free a")
        for pointer in ("null",) if crashes else ("null", "0x123456", "a"):
            assert m.a(line.format(pointer)).error == m.bare(line.format(pointer)).error, pointer
            assert m.requested() == 8 * MIB, pointer
        m.a.ok("free kept")
        return "crashes" if crashes else YES


for _row, _line in (("hipFree", "free {}"), ("hipFreeAsync", "freeasync {} s0"), ("hipHostFree", "hostfree {}"),
                    ("hipFreeHost", "freehost {}")):
    pointer_frees(_row, _line)


@about("hipHostFree")
def host_memory_is_free_of_charge(m):
    """host memory is no charge of any book, allocated by any name"""
    before = m.pod.given()
    for line in ("host a 64M", "memallochost b 64M"):
        m.a.ok(line)
    assert m.requested() == 0 and m.pod.given() == before
    m.a.ok("hostfree a")
    m.a.ok("free b")


# ---- FREE: arrays ----

def array_frees(row, line):
    @about(row)
    def frees_all(m):
        """gives back arrays of every maker"""
        for take in ("array a 1024 1024", "array3d a 64 64 64", "arraycreate a 1024 1024", "array3dcreate a 64 64 64"):
            m.a.ok(take)
            assert m.requested() in (4 * MIB, MIB)
            m.a.ok(line.format("a"))
            assert m.requested() == 0
        m.agree()

    @about(row)
    def frees_elsewhere(m):
        """counts for the device of the array, from any device and thread"""
        m.a.ok("device 1")
        m.a.ok("array a 1024 1024")
        m.a.ok("device 0")
        m.a.ok("thread " + line.format("a"))
        assert (m.requested(0), m.requested(1)) == (0, 0)
        m.agree()

    @about(row)
    def frees_nothing(m):
        """NULL: the release's own answer, and no byte moves"""
        m.a.ok("malloc kept 8M")
        assert m.a(line.format("null")).error == m.bare(line.format("null")).error
        assert m.requested() == 8 * MIB
        m.a.ok("free kept")


for _row, _line in (("hipFreeArray", "freearray {}"), ("hipArrayDestroy", "arraydestroy {}")):
    array_frees(_row, _line)


def mipmap_frees(row, line):
    @about(row)
    def frees_nothing(m):
        """there are no mipmapped arrays: NULL gets the release's own answer, and no byte moves"""
        m.a.ok("malloc kept 8M")
        assert m.a(line.format("null")).error == m.bare(line.format("null")).error
        assert m.requested() == 8 * MIB
        m.a.ok("free kept")


for _row, _line in (("hipFreeMipmappedArray", "freemip {}"), ("hipMipmappedArrayDestroy", "mipdestroy {}")):
    mipmap_frees(_row, _line)


# ---- HAND: virtual memory ----

NO_VMM = {release: ("no mapping", "5.x cannot map: hipMemMap is hipErrorInvalidValue") for release in ("5.2", "5.7")}
KEPT = {release: ("kept", "5.x says success and never gives a handle's memory back; the physical book goes on "
                          "counting it") for release in ("5.2", "5.7")}


SPOILED = {release: ("kept", "after a failed hipMemMap the handle cannot be released on 5.x; it stays charged")
           for release in ("5.2", "5.7")}


def mapped(m):
    """A program with a handle h mapped at va; None: the release cannot map."""
    program = m.a if m.number >= 64 else m.pod.run(str(LIMIT))  # a failed mapping spoils the handle for good
    program.ok("create h 64M 0")
    program.ok("reserve va 64M")
    if program("map va 64M h").error == 0:
        return program
    assert program("release h").error == 1 and m.requested() == 64 * MIB
    m.agree()
    program.end()
    assert m.requested() == 0
    return None


@about("hipMemRelease", unlike=KEPT)
def release_gives_back(m):
    """without a mapping it gives the bytes back"""
    before = m.pod.given()
    m.a.ok("create h 64M 0")
    m.a.ok("release h")
    assert m.requested() == 0
    m.agree()
    return YES if m.pod.given() <= before else "kept"


@about("hipMemRelease", unlike=NO_VMM)
def release_waits_for_the_mapping(m):
    """with a mapping it gives nothing back"""
    if not mapped(m):
        return "no mapping"
    given = m.pod.given()
    m.a.ok("release h")
    assert m.requested() == 64 * MIB and m.pod.given() == given
    m.a.ok("unmap va 64M")
    assert m.requested() == 0
    m.agree()


@about("hipMemMap", unlike=NO_VMM)
def map_is_a_reference(m):
    """two mappings are two references: the bytes go with the last"""
    if not mapped(m):
        return "no mapping"
    m.a.ok("reserve vb 64M")
    if m.a("map vb 64M h").error:  # one handle, one address: the release's answer
        m.a.ok("unmap va 64M")
        m.a.ok("release h")
        assert m.requested() == 0
        return "one only"
    m.a.ok("release h")
    m.a.ok("unmap va 64M")
    assert m.requested() == 64 * MIB
    m.a.ok("unmap vb 64M")
    assert m.requested() == 0
    m.agree()


@about("hipMemMap", unlike=SPOILED)
def a_failed_map_is_none(m):
    """a mapping that fails is no reference"""
    program = m.pod.run(str(LIMIT))
    program.ok("create h 4M 0")
    assert program("map null 4M h").error == 1
    if program("release h").error == 0:
        assert m.requested() == 0
        mark = YES
    else:
        assert m.requested() == 4 * MIB
        mark = "kept"
    m.agree()
    program.end()
    return mark


@about("hipMemUnmap", unlike=NO_VMM)
def unmap_after_release_frees(m):
    """after the release it gives the bytes back, in the driver too"""
    if not mapped(m):
        return "no mapping"
    m.a.ok("release h")
    given = m.pod.given()
    m.a.ok("unmap va 64M")
    assert m.requested() == 0 and m.pod.given() == given - 64 * MIB
    m.agree()


@about("hipMemUnmap", unlike=NO_VMM)
def unmap_before_release_keeps(m):
    """before the release it gives nothing back"""
    if not mapped(m):
        return "no mapping"
    m.a.ok("unmap va 64M")
    assert m.requested() == 64 * MIB
    m.a.ok("release h")
    assert m.requested() == 0
    m.agree()


# ---- HAND: hipDeviceReset ----

@about("hipDeviceReset", unlike={"5.2": ("frees nothing", "5.2.3's hipDeviceReset frees nothing")})
def reset_takes_linear_memory(m):
    """linear memory of the current device is gone; managed memory, arrays and the other device stay"""
    program = m.pod.run(str(LIMIT))
    program.ok("malloc a 64M")
    program.ok("pitch p 1000 1000")
    program.ok("managed m 32M")
    program.ok("array r 1024 1024")
    program.ok("device 1")
    program.ok("malloc b 16M")
    program.ok("device 0")
    asked = m.requested(0)
    program.ok("reset")
    left, mark = 32 * MIB + 4 * MIB, YES
    if m.requested(0) == asked:
        left, mark = asked, "frees nothing"
    assert m.requested(0) == left and m.requested(1) == 16 * MIB
    m.agree()
    program.end()
    return mark


# ---- HAND: pools ----

@about("hipMemPoolCreate")
def a_pool_is_on_its_device(m):
    """an allocation is charged to the pool's device, whatever the current one and the stream's"""
    m.a.ok("frompool a 64M p1 s1")
    assert (m.requested(0), m.requested(1)) == (0, 64 * MIB)
    m.agree()
    m.a.ok("freeasync a s1")
    assert m.requested(1) == 0


@about("hipMemPoolDestroy", unlike={"5.2": (
    "hangs", "5.2.3 hangs by itself in the free of an allocation whose pool is destroyed; not run")})
def a_destroyed_pool_gives_back(m):
    """what is allocated stays charged until it is freed"""
    if m.number == 52:
        return "hangs"
    m.a.ok("mempool p 0")
    m.a.ok("frompool a 64M p s0")
    m.a.ok("pooldestroy p")
    assert m.requested() == 64 * MIB
    m.agree()
    m.a.ok("freeasync a s0")
    m.a.ok("sync s0")
    assert m.requested() == 0
    m.agree()


def pools_of_devices(row, verb):
    @about(row)
    def is_the_devices(m):
        """its pool charges that device, from the other one"""
        m.a.ok(f"{verb} q 1")
        m.a.ok("frompool a 64M q s1")
        assert (m.requested(0), m.requested(1)) == (0, 64 * MIB)
        m.agree()
        m.a.ok("freeasync a s1")
        assert m.requested(1) == 0


pools_of_devices("hipDeviceGetDefaultMemPool", "defaultpool")
pools_of_devices("hipDeviceGetMemPool", "getpool")


@about("hipDeviceGetMemPool")
def a_current_pool_is_charged(m):
    """a pool made current serves hipMallocAsync, charged to its device"""
    m.a.ok("getpool old 0")
    m.a.ok("setpool 0 p0")
    m.a.ok("async a 64M s0")
    assert m.requested() == 64 * MIB
    m.agree()
    m.a.ok("freeasync a s0")
    m.a.ok("setpool 0 old")
    assert m.requested() == 0


@about("hipDeviceGetMemPool")
def streams_of_two_devices(m):
    """streams of two devices: each charges its own, whatever the current one is"""
    m.a.ok("async a 64M s0")
    m.a.ok("async b 32M s1")
    m.a.ok("device 1")
    m.a.ok("async c 16M s0")
    m.a.ok("device 0")
    assert (m.requested(0), m.requested(1)) == (80 * MIB, 32 * MIB)
    m.agree()
    for line in ("freeasync a s0", "freeasync b s1", "freeasync c s0"):
        m.a.ok(line)


# ---- HAND: graphs ----

NO_ALLOC_NODES = {"5.2": ("no capture", "5.2.3 does not capture hipMallocAsync: it allocates at once, and is charged at once")}


def captured(m, size="64M"):
    """A graph g that allocates; False: the release allocates at the capture."""
    m.a.ok("begin s0")
    m.a.ok(f"async n {size} s0")
    at_once = m.requested() != 0
    m.a.ok("end s0 g")
    return not at_once


def no_capture(m):
    assert m.requested() == 64 * MIB
    m.agree()
    m.a.ok("freeasync n s0")
    m.a.ok("graphdestroy g")
    return "no capture"


def graph_instantiates(row, verb):
    @about(row, unlike=NO_ALLOC_NODES)
    def sums(m):
        """the sum of the alloc nodes is charged at the first launch, once"""
        if not captured(m):
            return no_capture(m)
        m.a.ok(f"{verb} x g")
        assert m.requested() == 0
        m.a.ok("launch x s0")
        assert m.requested() == 64 * MIB
        m.a.ok("sync s0")
        m.agree()
        m.a.ok("execdestroy x")
        assert m.requested() == 0
        m.a.ok("graphdestroy g")


graph_instantiates("hipGraphInstantiate", "instantiate")
graph_instantiates("hipGraphInstantiateWithFlags", "instantiate_flags")
graph_instantiates("hipGraphInstantiateWithParams", "instantiate_params")


def graph_launches(row, verb):
    @about(row, unlike=NO_ALLOC_NODES)
    def refuses(m):
        """a launch over the limit is refused before the launch; the graph can be launched when there is room"""
        if not captured(m):
            return no_capture(m)
        m.a.ok("instantiate x g")
        m.a.ok(f"managed f {LIMIT - 64 * MIB + 1}")
        m.a("last")
        given = m.pod.given()
        assert m.a(f"{verb} x s0").error == 2 and m.a("last").error == 2
        assert m.pod.given() == given
        m.a.ok("free f")
        m.a.ok(f"{verb} x s0")
        assert m.requested() == 64 * MIB
        m.a.ok("sync s0")
        m.agree()
        m.a.ok("execdestroy x")
        m.a.ok("graphdestroy g")


graph_launches("hipGraphLaunch", "launch")
graph_launches("hipGraphLaunch_spt", "launch_spt")


@about("hipGraphLaunch")
def capture_is_left_alone(m):
    """during a capture hipMalloc gets the release's own answer, refused or not, and the capture goes on"""
    for program in (m.a, m.bare):
        program.ok("begin s0")
    expected = m.bare("malloc a 4M").error
    assert m.a("malloc a 4M").error == expected
    alive = m.bare("capturing s0")
    assert (m.a("capturing s0").error, m.a("capturing s0").status) == (alive.error, alive.status)
    ends = m.bare("end s0 g").error
    assert m.a("end s0 g").error == ends
    for program in (m.a, m.bare):
        if not expected:
            program.ok("free a")
        program("last")
    m.a.ok(f"managed f {LIMIT}")
    m.a.ok("begin s0")
    assert m.a("ext b 4M 0").error == 2
    assert m.a.ok("capturing s0").status == 1
    m.a.ok("end s0 g")
    m.a.ok("free f")
    m.agree()


@about("hipGraphExecDestroy", unlike=NO_ALLOC_NODES)
def exec_destroy(m):
    """gives back what the launch charged; one never launched gives nothing"""
    if not captured(m):
        return no_capture(m)
    m.a.ok("malloc kept 8M")
    m.a.ok("instantiate x g")
    captured(m)
    m.a.ok("instantiate y g")
    m.a.ok("launch x s0")
    m.a.ok("sync s0")
    assert m.requested() == 72 * MIB
    m.a.ok("execdestroy y")
    assert m.requested() == 72 * MIB
    m.a.ok("execdestroy x")
    assert m.requested() == 8 * MIB
    m.a.ok("graphdestroy g")
    m.a.ok("free kept")


# ---- HAND: reports ----

@about("hipMemGetInfo")
def info_is_the_limit(m):
    """total is the limit, on both devices; free falls with a charge and rises with its release"""
    for device in (1, 0):
        m.a.ok(f"device {device}")
        m.a.ok("malloc a 64M")
        m.a.ok("free a")  # and what the release kept for itself is gone
        before = m.a.ok("info")
        assert before.total == LIMIT and 0 <= before.free <= LIMIT
        m.a.ok("malloc a 64M")
        during = m.a.ok("info")
        assert before.free - 66 * MIB <= during.free <= before.free - 64 * MIB
        m.a.ok("free a")
        assert m.a.ok("info").free == before.free


@about("hipMemGetInfo")
def info_sees_the_pod(m):
    """free counts what another process of the pod has, and nothing of another pod's"""
    for program in (m.a, m.b, m.other.program):
        program.ok("malloc a 64M")
        program.ok("free a")
    before = m.a.ok("info").free
    m.other.program.ok("malloc a 64M")
    assert m.a.ok("info").free == before
    m.b.ok("malloc a 64M")
    assert before - 66 * MIB <= m.a.ok("info").free <= before - 64 * MIB
    m.b.ok("free a")
    m.other.program.ok("free a")
    assert m.a.ok("info").free == before


@about("hipMemGetInfo")
def info_under_a_pool(m):
    """a pool that asks for it while it frees deadlocks nobody and moves no byte"""
    for _ in range(20):
        m.a.ok("async a 16M s0")
        m.a.ok("async b 16M s0")
        m.a.ok("freeasync a s0")
        m.a.ok("freeasync b s0")
        m.a.ok("sync s0")
    assert m.requested() == 0
    m.agree()


@about("hipMemGetInfo")
def free_can_be_had(m):
    """what it calls free can be had, within a block of 2 MiB"""
    free = m.a.ok("info").free
    m.a.ok(f"malloc a {free - 2 * MIB}")
    m.agree()
    m.a.ok("free a")


@about("hipDeviceTotalMem")
def total_mem(m):
    """the limit, on both devices"""
    assert [m.a.ok(f"totalmem {device}").total for device in (0, 1)] == [LIMIT, LIMIT]


def property_totals(row, offset):
    @about(row)
    def total(m):
        """totalGlobalMem is the limit, on both devices"""
        assert [m.a.ok(f"props {row} {device} {offset}").total for device in (0, 1)] == [LIMIT, LIMIT]


property_totals("hipGetDeviceProperties", 256)
property_totals("hipGetDevicePropertiesR0000", 256)
property_totals("hipGetDevicePropertiesR0600", 288)


@about("hipDeviceGetAttribute", unlike={r: ("1", "5.x does not know attribute 84: hipErrorInvalidValue")
                                        for r in ("5.2", "5.7")})
def attribute(m):
    """attribute 84 is the limit, on both devices"""
    answers = [m.a(f"attribute 84 {device}") for device in (0, 1)]
    if answers[0].error:
        assert {a.error for a in answers} == {m.bare("attribute 84 0").error}
        return str(answers[0].error)
    assert [a.value for a in answers] == [min(LIMIT, (1 << 31) - 1)] * 2

"""The matrix: what is true of every row of src/hip/hip_api.def on every runtime that has it.

An ALLOC row is a recipe; every claim about allocations is tried with it. A FREE or HAND row has claims of its own, functions
marked @about(row). A claim returns its mark: "✓", or what the release does instead, which UNLIKE must say too.
docs/matrix.md is written from here by write_matrix, which runs it; test_real_matrix.py runs it as tests.
"""
import collections
import re

from conftest import GIB, MIB, ROOT
from real_pod import RELEASES, RealPod, runtime_folder

LIMIT = GIB  # of both devices
YES = "✓"


def table_rows():
    """The rows of the table: name -> (kind, first release)."""
    text = (ROOT / "src" / "hip" / "hip_api.def").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = re.findall(r"^(ALLOC|FREE|HAND)\s*\((\w+),\s*[\w.]+,\s*(\d+),", text, re.M)
    return {name: (kind, int(since)) for kind, name, since in found}


def has(release, row):
    return table_rows()[row][1] <= RELEASES[release]


# ---- the machine: two cards, a pod of two programs, another pod, a program without us ----

class Machine:
    def __init__(self, folder, release):
        runtime_folder(release)
        self.folder, self.release, self.number = folder, release, RELEASES[release]
        self.pod = self._pod("pod")
        self.a, self.b = self._program(self.pod), self._program(self.pod)
        self._other, self._bare = None, None

    def _pod(self, name):
        folder = self.folder / name
        folder.mkdir()
        return RealPod(folder, self.release, machine=self.folder / "cards", gpus=2)

    def _program(self, pod, **options):
        """A program with a stream and a pool on each device."""
        program = pod.run(str(LIMIT), **options)
        for device in (1, 0):
            program.ok(f"device {device}")
            program.ok(f"stream s{device}")
            program.ok(f"mempool p{device} {device}")
        return program

    @property
    def other(self):
        """Another pod on the same cards, with one program."""
        if not self._other:
            self._other = self._pod("other")
            self._other.program = self._program(self._other)
        return self._other

    @property
    def bare(self):
        """The same runtime without us."""
        if not self._bare:
            pod = self._pod("bare")
            self._bare = pod, self._program(pod, audit=None)
        return self._bare[1]

    def requested(self, device=0):
        return self.pod.books(device)[0]

    def agree(self):
        """Our physical book is the oracle's sum, and nobody holds more than the limit."""
        oracle = self.pod.oracle()
        pids = {p.pid for p in self.pod.programs}
        for device in (0, 1):
            given = sum(p["cards"][device]["now"] for p in oracle["processes"] if p["pid"] in pids)
            asked, physical = self.pod.books(device)
            assert physical == given, f"device {device}: our book says {physical}, the driver gave {given}"
            assert given <= LIMIT and asked <= LIMIT, f"device {device}: {asked} asked, {given} given"

    def is_clean(self):
        return self.requested(0) == 0 and self.requested(1) == 0

    def is_worn(self):
        """5.x loses memory by itself: so much that the next claims would not fit."""
        return any(self.pod.books(device)[1] > LIMIT // 2 for device in (0, 1))

    def close(self):
        for pod in [self.pod, self._other, self._bare and self._bare[0]]:
            if pod:
                pod.close()


# ---- ALLOC rows: how to take and how to give back. {n} a name, {d} the device, {s} its stream, {p} its pool ----

Recipe = collections.namedtuple("Recipe", "take give size")
RECIPES = {
    "hipMalloc": Recipe("malloc {n} 64M", "free {n}", 64 * MIB),
    "hipExtMallocWithFlags": Recipe("ext {n} 64M 0", "free {n}", 64 * MIB),
    "hipMallocManaged": Recipe("managed {n} 64M", "free {n}", 64 * MIB),
    "hipMallocPitch": Recipe("pitch {n} 1000 1000", "free {n}", 1024 * 1000),
    "hipMemAllocPitch": Recipe("mempitch {n} 1000 1000", "free {n}", 1024 * 1000),
    "hipMalloc3D": Recipe("malloc3d {n} 1000 100 10", "free {n}", 1024 * 1000),
    "hipMallocAsync": Recipe("async {n} 64M {s}", "freeasync {n} {s}", 64 * MIB),
    "hipMallocFromPoolAsync": Recipe("frompool {n} 64M {p} {s}", "freeasync {n} {s}", 64 * MIB),
    "hipMallocArray": Recipe("array {n} 1024 1024", "freearray {n}", 4 * MIB),
    "hipMalloc3DArray": Recipe("array3d {n} 64 64 64", "freearray {n}", 1 * MIB),
    "hipArrayCreate": Recipe("arraycreate {n} 1024 1024", "arraydestroy {n}", 4 * MIB),
    "hipArray3DCreate": Recipe("array3dcreate {n} 64 64 64", "arraydestroy {n}", 1 * MIB),
    "hipMallocMipmappedArray": Recipe("mipmap {n} 64 64 0", "freemip {n}", 64 * 64 * 4 + 32 * 32 * 4),
    "hipMipmappedArrayCreate": Recipe("mipcreate {n} 64 64 0", "mipdestroy {n}", 64 * 64 * 4 + 32 * 32 * 4),
    "hipMemCreate": Recipe("create {n} 4M {d}", "release {n}", 4 * MIB),
}
POOLED = ("hipMallocAsync", "hipMallocFromPoolAsync")
ARRAYS = ("hipMallocArray", "hipMalloc3DArray", "hipArrayCreate", "hipArray3DCreate")
MIPMAPS = ("hipMallocMipmappedArray", "hipMipmappedArrayCreate")


class Row:
    """A recipe on a machine."""

    def __init__(self, machine, name):
        self.m, self.name, self.size = machine, name, RECIPES[name].size

    def take(self, n="a", device=0):
        return RECIPES[self.name].take.format(n=n, d=device, s=f"s{device}", p=f"p{device}")

    def give(self, n="a", device=0):
        return RECIPES[self.name].give.format(n=n, d=device, s=f"s{device}", p=f"p{device}")


def is_charged(row):
    """charged what was asked for; the driver's bytes are in the physical book"""
    m = row.m
    m.a.ok(row.take())
    assert m.requested() == row.size and m.requested(1) == 0
    m.agree()
    m.a.ok(row.give())
    return YES


def is_released(row):
    """given back"""
    m = row.m
    m.a.ok(row.take())
    given = m.pod.given()
    m.a.ok(row.give())
    if row.name in POOLED:
        m.a.ok("sync s0")
    assert m.requested() == 0
    m.agree()
    is_whole_block = row.size >= 4 * MIB and row.name != "hipMallocManaged"  # smaller ones share a block of ROCr's
    return "kept" if is_whole_block and m.pod.given() >= given else YES


def is_refused(row):
    """one byte over the limit is refused as out of memory, and nothing changed"""
    m = row.m
    m.a.ok(f"managed f {LIMIT - row.size + 1}")
    before = m.pod.given()
    answer = m.a(row.take("x"))
    assert answer.error == 2, answer
    assert m.requested() == LIMIT - row.size + 1 and m.pod.given() == before
    m.a.ok("free f")
    m.a.ok(row.take())
    m.a.ok(row.give())
    return YES


def fits_exactly(row):
    """the last byte of the limit can be had"""
    m = row.m
    m.a.ok(f"managed f {LIMIT - row.size}")
    m.a.ok(row.take())
    assert m.requested() == LIMIT
    m.a.ok(row.give())
    m.a.ok("free f")
    return YES


def leaves_the_last_error(row):
    """a refusal is the last error, once"""
    m = row.m
    m.a.ok(f"managed f {LIMIT - row.size + 1}")
    m.a("last")
    assert m.a(row.take("x")).error == 2
    assert [m.a(line).error for line in ("peek", "last", "last")] == [2, 2, 0]
    if m.number >= 64:
        assert m.a(row.take("x")).error == 2
        assert [m.a(line).error for line in ("extlast", "last", "last")] == [2, 2, 0]
    m.a.ok("free f")
    return YES


def is_refused_by_the_driver(row):
    """the driver's bytes at the limit, the requested ones below it: refused"""
    m = row.m
    for size in ("3M", "1M", "4K"):
        assert m.a(f"hold {size}").error == 2
    assert m.requested() < LIMIT - row.size
    m.agree()
    m.a("last")
    taken = []
    while len(taken) < (3 if row.name in POOLED else 1):  # a pool may have a few blocks left
        answer = m.a(row.take(f"x{len(taken)}"))
        if answer.error:
            break
        taken.append(f"x{len(taken)}")
        m.agree()
    assert answer.error in (0, 2) and m.a("last").error == answer.error, answer
    mark = YES if answer.error else "host"
    for name in taken:
        m.a.ok(row.give(name))
    m.agree()
    m.a.ok("drop")
    m.a.ok(row.take())
    m.a.ok(row.give())
    assert m.requested() == 0
    m.agree()
    return mark


def is_counted_by_threads(row):
    """four threads near the limit: every answer is success or out of memory, and the books end empty"""
    m = row.m
    if row.name in POOLED and m.number == 52:
        return "hangs"  # not run: see UNLIKE
    m.a.ok(f"managed f {LIMIT - 2 * row.size - row.size // 2}")
    answer = m.a(f"race 4 25 {row.take('t%')} / {row.give('t%')}")
    assert answer.error == 0, answer
    assert answer.granted > 0 and answer.granted + answer.refused == 100
    m.a.ok("free f")
    assert m.requested() == 0
    m.agree()
    return YES


def is_charged_to_its_device(row):
    """charged to the second device there, freed from the first"""
    m = row.m
    m.a.ok("device 1")
    m.a.ok(row.take("b", 1))
    assert m.requested(1) == row.size and m.requested(0) == 0
    m.agree()
    m.a.ok("device 0")
    m.a.ok(row.give("b", 1))
    assert m.requested(1) == 0
    m.agree()
    return YES


def is_shared_by_the_pod(row):
    """another process of the pod finds it charged"""
    m = row.m
    m.b.ok(row.take())
    assert m.requested() == row.size
    m.a.ok(f"managed f {LIMIT - row.size}")
    assert m.a(row.take("x")).error == 2 and m.a.ok("info").free == 0
    m.b.ok(row.give())
    m.a.ok(row.take())
    m.a.ok(row.give())
    m.a.ok("free f")
    m.agree()
    return YES


def is_no_other_pods_business(row):
    """another pod on the card, full, takes nothing from this one"""
    m = row.m
    c = m.other.program
    m.a.ok(f"managed f {LIMIT}")
    c.ok(row.take())
    assert m.other.books()[0] == row.size and m.requested() == LIMIT
    assert m.other.books()[1] == m.other.given()
    m.agree()
    c.ok(row.give())
    assert m.other.books()[0] == 0
    m.a.ok("free f")
    return YES


CLAIMS = {
    "charged": is_charged, "released": is_released, "refused": is_refused, "exact": fits_exactly,
    "last error": leaves_the_last_error, "driver full": is_refused_by_the_driver, "threads": is_counted_by_threads,
    "two devices": is_charged_to_its_device, "two processes": is_shared_by_the_pod,
    "two pods": is_no_other_pods_business,
}


def does_not_exist(row):
    """A call that fails in every release leaves the books alone; over the limit it is refused before."""
    m = row.m
    expected = m.bare(row.take()).error
    assert expected != 0 and m.a(row.take()).error == expected
    assert m.requested() == 0
    m.agree()
    return str(expected)


# What a release does instead: (row, claim) -> {release: (mark, why)}
HOST = ("host", "the release takes host memory when the card is full, and says success, as on a card of that size")
HANGS = ("hangs", "5.2.3 hangs by itself when threads use pools; not run")
UNLIKE = collections.defaultdict(dict)
for _row in (*ARRAYS, "hipMallocManaged"):
    for _release in RELEASES:
        UNLIKE[_row, "driver full"][_release] = HOST
for _row in POOLED:
    UNLIKE[_row, "threads"]["5.2"] = HANGS
    for _release in ("5.2", "5.7"):
        UNLIKE[_row, "released"][_release] = (
            "kept", "the release's pool keeps the block until it is trimmed; the physical book goes on counting it")
for _release in ("5.2", "5.7"):
    UNLIKE["hipMemCreate", "released"][_release] = (
        "kept", "5.x says success and never gives a handle's memory back; the physical book goes on counting it")
for _row in MIPMAPS:
    for _release in RELEASES:
        UNLIKE[_row, "charged"][_release] = (
            ("1", "no mipmapped arrays: hipErrorInvalidValue") if (_row, _release) == (MIPMAPS[1], "5.2") else
            ("801", "no mipmapped arrays on Linux: hipErrorNotSupported"))


def claims_about(name):
    return {"charged": does_not_exist} if name in MIPMAPS else CLAIMS


def expected(name, claim, release):
    return UNLIKE[name, claim].get(release, (YES,))[0]


def measure(machine, name, claim):
    """The mark that a claim about an ALLOC row earns."""
    return claims_about(name)[claim](Row(machine, name))

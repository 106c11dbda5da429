"""Programs that ask no HIP: HSA, KFD and DRM directly. Each is limited, and each test says by which tier."""
import subprocess

import pytest
from conftest import BUILD, MIB, ROOT
from card import assert_books_are_true, end, go_on, parameters, pod_on, said  # noqa: F401

HSASH = "test/card/hsash.c"
OUT_OF_RESOURCES = 0x1008


# ---- HSA: refused by the request at the HSA tier, or by the driver inside the allocation call ----

@parameters()
def test_a_direct_hsa_program_gets_12_times_20_mib_of_256_and_goes_on(pod_on, release):
    pod = pod_on(release)
    hsa = pod.run("256M", shell=HSASH)
    assert hsa.ok("init").gpus == 1
    for _ in range(2):
        answer = hsa("fill 20M")
        assert (answer.error, answer.got) == (OUT_OF_RESOURCES, 12)
        assert_books_are_true(pod)
        hsa.ok("free")
    hsa.ok("queue 0")
    assert_books_are_true(pod)
    hsa.ok("shutdown")
    assert pod.peak() <= 256 * MIB
    hsa.end()
    assert hsa.process.returncode == 0


@parameters()
def test_every_pool_says_the_limit_and_what_is_left(pod_on, release):
    pod = pod_on(release)
    hsa = pod.run("256M", shell=HSASH)
    hsa.ok("init")
    info = hsa("info")
    assert (info.total, info.most) == (256 * MIB, 256 * MIB)
    hsa.ok("region 100M")
    info = hsa("info")
    if release != "5.2":  # which does not know the question
        assert info.error == 0 and info.free == 156 * MIB
    assert hsa("region 200M").error == OUT_OF_RESOURCES
    assert_books_are_true(pod)


@parameters("7.2", "6.4")
def test_memory_without_an_address_is_charged_and_refused(pod_on, release):
    pod = pod_on(release)
    hsa = pod.run("256M", shell=HSASH)
    hsa.ok("init")
    hsa.ok("vmem 200M")
    assert hsa("vmem 100M").error == OUT_OF_RESOURCES
    assert_books_are_true(pod)


@parameters()
def test_a_refusal_of_a_direct_program_is_on_record_under_the_functions_name(pod_on, release):
    pod = pod_on(release)
    hsa = pod.run("256M", shell=HSASH)
    hsa.ok("init")
    assert hsa("region 300M").error == OUT_OF_RESOURCES
    (region,) = pod.status()["regions"]
    assert region["processes"][0]["refusals"] == 1
    assert region["processes"][0]["last_refusal"]["api"] == "hsa_memory_allocate"


@parameters()
def test_two_gpus_of_a_direct_program_have_their_own_limits(pod_on, release):
    pod = pod_on(release, cards=(2048, 2048))
    hsa = pod.run(limit=None, shell=HSASH, HIP_DEVICE_MEMORY_LIMIT_0="100M", HIP_DEVICE_MEMORY_LIMIT_1="200M")
    assert hsa.ok("init").gpus == 2
    assert hsa("fill 20M").got == 5
    hsa("gpu 1")
    assert hsa("info").total == 200 * MIB
    assert hsa("fill 20M").got == 10
    assert_books_are_true(pod)


# ---- KFD: refused at the ioctl, since the caller is not ROCr ----

def kfd(pod, script, limit="256M", **extra):
    return pod.client("kfd = Kfd()\n" + script, limit=limit, **extra)


@parameters()
def test_a_raw_kfd_program_is_refused_with_enomem_and_gets_what_it_frees_again(pod_on, release):
    pod = pod_on(release)
    client = kfd(pod, """
held = [kfd.allocate(100 * MIB), kfd.allocate(100 * MIB)]
say(error_of(kfd.allocate, 100 * MIB), kfd.available() // MIB)
wait_for_line()
kfd.free(held.pop())
say(error_of(kfd.free, 0x100100777), error_of(kfd.allocate, 100 * MIB), error_of(kfd.allocate, 100 * MIB))
wait_for_line()
""")
    assert said(client) == "ENOMEM 56"
    assert_books_are_true(pod)
    (region,) = pod.status()["regions"]
    assert region["processes"][0]["refusals"] == 1
    go_on(client)
    assert said(client) == "EINVAL no error ENOMEM"
    assert_books_are_true(pod)
    assert pod.peak() <= 256 * MIB


def test_system_memory_and_pages_are_counted_as_the_driver_counts_them(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, """
kfd.allocate(1 * MIB, GTT | WRITABLE)
kfd.allocate(1)
kfd.allocate(4097)
say("done")
wait_for_line()
""")
    assert said(client) == "done"
    assert pod.charged()[client.pid] == {0: 3 * 4096}
    assert_books_are_true(pod)


def test_a_command_of_a_newer_header_is_counted_too(pod_on):
    """Its structure is longer; the kernel goes by the number."""
    pod = pod_on("7.2")
    client = kfd(pod, """
def longer(size):
    return call(kfd.fd, kfd_command(0x16, 56), "QQQQIIQQ", 0, size, 0, 0, FIRST_GPU_ID, USER_FLAGS, 0, 0)
longer(200 * MIB)
say(error_of(longer, 100 * MIB))
wait_for_line()
""")
    assert said(client) == "ENOMEM"
    assert_books_are_true(pod)


def test_a_consoles_commands_pass_though_they_share_the_letter(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, """
reads, writes = os.pipe()
say(*(error_of(fcntl.ioctl, reads, ord("K") << 8 | number, bytearray(64)) for number in (2, 3, 7, 0x16, 0x17, 0x1a)))
""")
    assert end(client).split() == ["ENOTTY"] * 6
    assert not pod.region.exists() or pod.charged().get(client.pid, {}) == {}


def test_available_memory_is_what_the_limit_leaves(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, """
say(kfd.available() // MIB)
kfd.allocate(100 * MIB)
say(kfd.available() // MIB)
""")
    assert end(client).split() == ["256", "156"]


def test_a_buffer_exported_and_imported_is_charged_once_until_the_last_hold(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, """
first = kfd.allocate(64 * MIB)
fd = kfd.export(first)
second = kfd.import_(fd)
drm = Drm()
gem = drm.import_(fd)
for step in (lambda: None, lambda: kfd.free(first), lambda: os.close(fd), lambda: kfd.free(second), lambda: drm.close_handle(gem)):
    step()
    say("step")
    wait_for_line()
""")
    for expected in (64, 64, 64, 64, 0):
        assert said(client) == "step"
        assert pod.charged().get(client.pid, {}).get(0, 0) == expected * MIB
        assert_books_are_true(pod)
        go_on(client)


def test_a_dma_buf_alone_keeps_the_charge_until_its_descriptor_is_closed(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, """
handle = kfd.allocate(200 * MIB)
fd = kfd.export(handle)
kfd.free(handle)
say(error_of(kfd.allocate, 100 * MIB))
wait_for_line()
os.close(fd)
say(error_of(kfd.allocate, 100 * MIB))
wait_for_line()
""")
    assert said(client) == "ENOMEM"
    assert_books_are_true(pod)
    go_on(client)
    assert said(client) == "no error"
    assert_books_are_true(pod)


def test_every_export_of_a_buffer_leads_back_to_it(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, """
handle = kfd.allocate(64 * MIB)
fds = [kfd.export(handle) for _ in range(3)]
imports = [kfd.import_(fd) for fd in fds]
kfd.free(handle)
for fd in fds:
    os.close(fd)
say("held")
wait_for_line()
for handle in imports:
    kfd.free(handle)
say("gone")
wait_for_line()
""")
    for word, expected in (("held", {0: 64 * MIB}), ("gone", {})):
        assert said(client) == word
        assert pod.charged()[client.pid] == expected
        assert_books_are_true(pod)
        go_on(client)


SEND = """
import array, socket
def receive(path):
    server = socket.socket(socket.AF_UNIX); server.connect(path)
    return socket.recv_fds(server, 1, 1)[1][0]
def offer(path, fd):
    server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen(1)
    say("ready")
    peer = server.accept()[0]
    socket.send_fds(peer, [b"x"], [fd])
"""


def test_memory_of_another_process_is_charged_to_its_exporter_alone(pod_on, tmp_path):
    pod = pod_on("7.2")
    path = str(tmp_path / "s")
    exporter = kfd(pod, SEND + f"fd = kfd.export(kfd.allocate(150 * MIB)); offer({path!r}, fd); wait_for_line()")
    assert said(exporter) == "ready"
    importer = kfd(pod, SEND + f"""
kfd.import_(receive({path!r}))
say(error_of(kfd.allocate, 100 * MIB), error_of(kfd.allocate, 100 * MIB))
wait_for_line()
""")
    assert said(importer) == "no error ENOMEM"
    assert pod.charged() == {exporter.pid: {0: 150 * MIB}, importer.pid: {0: 100 * MIB}}
    assert_books_are_true(pod)


def test_hole_memory_that_outlives_its_exporter_in_another_process_is_charged_to_nobody(pod_on, tmp_path):
    """A known hole: the driver still gives it, the book does not know. docs/accounting.md names it."""
    pod = pod_on("7.2")
    path = str(tmp_path / "s")
    exporter = kfd(pod, SEND + f"""
handle = kfd.allocate(150 * MIB)
fd = kfd.export(handle)
offer({path!r}, fd)
wait_for_line()
kfd.free(handle); os.close(fd)
say("freed")
wait_for_line()
""")
    assert said(exporter) == "ready"
    importer = kfd(pod, SEND + f"fd = receive({path!r}); kfd.import_(fd); os.close(fd); say('imported'); wait_for_line()")
    assert said(importer) == "imported"
    go_on(exporter)
    assert said(exporter) == "freed"
    assert pod.oracle()["cards"][0]["used"] == 150 * MIB
    assert all(not devices for devices in pod.charged().values())


def test_a_forked_child_owns_nothing_of_its_parents_buffers(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, """
fd = kfd.export(kfd.allocate(200 * MIB))
if not os.fork():
    os.close(fd)
    own = Kfd()
    say(error_of(own.allocate, 100 * MIB), error_of(own.allocate, 40 * MIB))
    os._exit(0)
os.wait()
say("parent")
wait_for_line()
""")
    assert said(client) == "ENOMEM no error"
    assert said(client) == "parent"
    assert pod.charged()[client.pid] == {0: 200 * MIB}


def test_a_program_started_by_vfork_that_closes_everything_frees_nothing(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, """
import subprocess
handle = kfd.allocate(200 * MIB)
fd = kfd.export(handle)
kfd.free(handle)
subprocess.run(["/bin/true"], close_fds=True)
say("parent")
wait_for_line()
""")
    assert said(client) == "parent"
    assert pod.charged()[client.pid] == {0: 200 * MIB}
    assert_books_are_true(pod)


def migrated(pod):
    (region,) = pod.status()["regions"]
    (process,) = region["processes"]
    return sum(device["managed_bytes"] for device in process["devices"])


@parameters()
def test_migrated_memory_is_in_no_book_and_goes_down_with_a_prefetch_back_and_a_free(pod_on, release):
    pod = pod_on(release)
    hip = pod.run("1G")
    hip.ok("stream s")
    hip.ok("managed a 64M")
    hip.ok("managed b 8M")
    hip.ok("prefetch b 8M 0")
    queues = migrated(pod) - 8 * MIB  # their save areas: 61 MiB each from 5.7 on
    charged = pod.charged()[hip.pid]
    for line, expected in (("prefetch a 64M 0", 72), ("prefetch a 64M 0", 72), ("prefetch a+16777216 8M -1", 64),
                           ("prefetch a+16777216 8M 0", 72), ("prefetch a 64M -1", 8), ("prefetch a+33554432 32M 0", 40),
                           ("free a", 8), ("free b", 0)):
        hip.ok(line)
        hip.ok("devsync")
        assert migrated(pod) == queues + expected * MIB, line
        assert pod.charged()[hip.pid] == charged
    (region,) = pod.status()["regions"]
    assert region["devices"][0]["requested_bytes"] == 0


def test_a_queues_save_area_and_a_preferred_location_are_reported_as_long_as_they_are(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, """
import mmap
def prefer(address, size, gpu_id):
    call(kfd.fd, kfd_command(0x20, 24), "QQIIII", address, size, 0, 1, 0, gpu_id)
kfd.allocate(MIB)
say("start"); wait_for_line()
prefer(0x7000000000, 32 * MIB, FIRST_GPU_ID)
say("preferred"); wait_for_line()
kfd.prefetch(0x7100000000, 61 * MIB, FIRST_GPU_ID)
queue = kfd.create_queue(save=0x7100000000)
say("queue"); wait_for_line()
prefer(0x7000000000, 32 * MIB, 0xffffffff)
say("undefined"); wait_for_line()
prefer(0x7000000000, 32 * MIB, 0)
say("host"); wait_for_line()
call(kfd.fd, kfd_command(0x03, 8), "II", queue, 0)
say("destroyed"); wait_for_line()
""")
    for word, expected in (("start", 0), ("preferred", 32), ("queue", 93), ("undefined", 93), ("host", 61), ("destroyed", 0)):
        assert said(client) == word
        assert migrated(pod) == expected * MIB
        go_on(client)
    end(client)


def test_a_real_device_without_a_limit_is_not_counted_and_no_region_is_made(pod_on):
    pod = pod_on("7.2")
    client = kfd(pod, "kfd.allocate(600 * MIB); say('ok')", limit=None, HSA_CU_MASK="0:0-15")
    assert end(client) == "ok\n"
    assert not pod.region.exists()


def test_an_ioctl_that_passes_a_second_interposer_is_counted_once(pod_on):
    spy = BUILD / "test" / "spy.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", spy, ROOT / "test" / "softgpu_kfd" / "spy.c", "-ldl"], check=True)
    pod = pod_on("7.2")
    hip = pod.run("1G", options=("--preload", spy))
    hip.ok("malloc a 64M")
    hip.ok("stream s")
    hip.ok("async b 40M s")
    assert_books_are_true(pod)
    assert "spy 0xc0284b16" in hip.end()


# ---- DRM: refused at the ioctl ----

def test_a_drm_program_is_refused_with_enomem_and_closing_gives_it_back(pod_on):
    pod = pod_on("7.2")
    client = pod.client("""
drm = Drm()
first, second = drm.create(100 * MIB), drm.create(100 * MIB)
drm.create(100 * MIB, 2)
say(error_of(drm.create, 100 * MIB))
wait_for_line()
drm.close_handle(first)
say(error_of(drm.close_handle, 999), error_of(drm.create, 100 * MIB))
wait_for_line()
fd = drm.export(second)
again = drm.import_(fd)
drm.close_handle(second)
os.close(fd)
say("exported", again == second)
wait_for_line()
""", limit="256M")
    assert said(client) == "ENOMEM"
    assert_books_are_true(pod)
    go_on(client)
    assert said(client) == "EINVAL no error"
    assert_books_are_true(pod)
    go_on(client)
    assert said(client) == "exported True"
    assert_books_are_true(pod)
    assert pod.peak() <= 256 * MIB


def test_the_end_of_a_drm_file_gives_back_all_that_was_made_in_it(pod_on):
    pod = pod_on("7.2", cards=(1024, 1024))
    client = pod.client("""
drm, other = Drm(), Drm(129)
for _ in range(3):
    drm.create(40 * MIB)
other.create(60 * MIB)
say("made")
wait_for_line()
os.close(drm.fd)
say("closed")
wait_for_line()
drm = Drm()
drm.create(200 * MIB)
say("again")
wait_for_line()
""", limit="256M")
    for word, expected in (("made", {0: 120 * MIB, 1: 60 * MIB}), ("closed", {1: 60 * MIB}), ("again", {0: 200 * MIB, 1: 60 * MIB})):
        assert said(client) == word
        assert pod.charged()[client.pid] == expected
        assert_books_are_true(pod)
        go_on(client)


def test_a_card_is_the_same_by_its_primary_node(pod_on):
    pod = pod_on("7.2", cards=(1024, 1024))
    client = pod.client("""
first, second, render = Drm(0), Drm(1), Drm(129)
first.create(200 * MIB)
second.create(100 * MIB)
say(error_of(first.create, 100 * MIB), error_of(second.create, 200 * MIB), error_of(render.create, 200 * MIB))
wait_for_line()
os.close(first.fd)
say(error_of(Drm(128).create, 200 * MIB))
wait_for_line()
""", limit="256M")
    assert said(client) == "ENOMEM ENOMEM ENOMEM"
    assert pod.charged()[client.pid] == {0: 200 * MIB, 1: 100 * MIB}
    assert_books_are_true(pod)
    go_on(client)
    assert said(client) == "no error"
    assert pod.peak(0) <= 256 * MIB and pod.peak(1) <= 256 * MIB


def assert_answers(pod, client, *answers):
    """What the client says, one after the other; the books are true each time, and the limit was never passed."""
    for expected in answers:
        assert said(client) == expected
        assert_books_are_true(pod)
        go_on(client)
    assert pod.peak() <= 256 * MIB


DUPLICATES = {"dup": "os.dup({})", "dup2": "os.dup2({}, 200)", "fcntl": "fcntl.fcntl({}, fcntl.F_DUPFD_CLOEXEC, 100)"}


@pytest.mark.parametrize("way", DUPLICATES)
@pytest.mark.parametrize("order", [("free", "close"), ("close", "free")])
def test_a_duplicate_of_a_dma_bufs_descriptor_keeps_the_charge(pod_on, way, order):
    pod = pod_on("7.2")
    client = kfd(pod, f"""
handle = kfd.allocate(200 * MIB)
fd = kfd.export(handle)
again = {DUPLICATES[way].format("fd")}
steps = dict(free=lambda: kfd.free(handle), close=lambda: os.close(fd))
for step in {order}:
    steps[step]()
say(error_of(kfd.allocate, 100 * MIB))
wait_for_line()
third = os.dup(again)
os.close(again)
say(error_of(kfd.allocate, 100 * MIB))
wait_for_line()
os.close(third)
say(error_of(kfd.allocate, 100 * MIB))
wait_for_line()
""")
    assert_answers(pod, client, "ENOMEM", "ENOMEM", "no error")


@pytest.mark.parametrize("way", DUPLICATES)
def test_a_duplicate_of_a_drm_file_keeps_what_was_made_in_it(pod_on, way):
    pod = pod_on("7.2")
    client = pod.client(f"""
drm, another = Drm(), Drm()
handles = [drm.create(60 * MIB) for _ in range(3)]
again = Drm(fd={DUPLICATES[way].format("drm.fd")})
os.close(drm.fd)
say(error_of(another.create, 100 * MIB))
wait_for_line()
again.close_handle(handles[1])
say(error_of(again.create, 100 * MIB), error_of(another.create, 100 * MIB))
wait_for_line()
os.close(again.fd)
say(error_of(another.create, 200 * MIB))
wait_for_line()
""", limit="256M")
    assert_answers(pod, client, "ENOMEM", "no error ENOMEM", "no error")


def test_a_duplicate_keeps_the_charge_where_a_filter_forbids_to_compare_descriptors(pod_on):
    """As containers' seccomp filters do. Any other file of the same node passes for a duplicate then."""
    pod = pod_on("7.2")
    client = pod.client("""
drm = Drm()
drm.create(200 * MIB)
again = Drm(fd=os.dup(drm.fd))
# load the number; kcmp: EPERM; all else: allowed
filter = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 312, 0x06, 0, 0, 0x00050001, 0x06, 0, 0, 0x7fff0000)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(keep := ctypes.create_string_buffer(filter))))
libc = ctypes.CDLL(None, use_errno=True)
say(libc.prctl(38, 1, 0, 0, 0), libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0),
    libc.syscall(312, os.getpid(), os.getpid(), 0, 0, 1))
os.close(drm.fd)
say(error_of(again.create, 100 * MIB))
wait_for_line()
""", limit="256M")
    assert said(client) == "0 0 -1"
    assert said(client) == "ENOMEM"
    assert_books_are_true(pod)


def test_a_libdrm_amdgpu_program_is_refused_with_enomem(pod_on):
    """The whole library's way: initialize, allocate, map, export, import."""
    program = BUILD / "test" / "drm_program"
    subprocess.run(["gcc", "-O2", "-o", program, ROOT / "test" / "softgpu_kfd" / "drm_program.c", "-ldrm_amdgpu", "-ldrm"],
                   check=True)
    pod = pod_on("7.2")
    client = pod.start(program, limit="16M")
    assert said(client) == "ok"
    assert pod.charged()[client.pid] == {0: 8 * MIB}
    assert_books_are_true(pod)
    go_on(client)
    assert said(client) == "freed"
    assert_books_are_true(pod)
    go_on(client)
    end(client)
    client = pod.start(program, limit="4M")
    out, error = client.communicate(timeout=60)
    assert client.returncode != 0 and "amdgpu_bo_alloc" in error


def test_a_free_that_fails_leaves_the_charge(pod_on):
    failing = BUILD / "test" / "failing_free.so"
    subprocess.run(["gcc", "-O2", "-fno-optimize-sibling-calls", "-shared", "-fPIC", "-o", failing,
                    ROOT / "test" / "card" / "failing_free.c", "-ldl"], check=True)
    pod = pod_on("7.2")
    client = kfd(pod, """
handle = kfd.allocate(200 * MIB)
say(error_of(kfd.free, handle))
wait_for_line()
kfd.free(handle)
say("freed")
wait_for_line()
""", options=("--preload", failing))
    for word, expected in (("EBUSY", {0: 200 * MIB}), ("freed", {})):
        assert said(client) == word
        assert pod.charged()[client.pid] == expected
        assert_books_are_true(pod)
        go_on(client)

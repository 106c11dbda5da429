"""The emulated driver alone, by a client that speaks to it without ROCm."""

import os
import re
import signal
import subprocess
import time


from machine import HERE, KFD, MIB, answer, finish, library, line, rocm, run  # noqa: F401 (fixtures)


def test_a_vram_allocation_is_charged_to_its_process_and_kind_in_whole_pages(run):
    client = run.client("""
        kfd = Kfd()
        kfd.allocate(4 * MIB)
        kfd.allocate(5000)                                    # pages
        kfd.allocate(8 * MIB, VRAM | WRITABLE)                # not for the CPU, no code: scratch
        kfd.allocate(4096, VRAM | EXECUTABLE | WRITABLE)      # not for the CPU, code: a queue's
        kfd.allocate(12288, USER_FLAGS | EXECUTABLE)          # no whole 2 MiB: a code object
        kfd.allocate(MIB, GTT | WRITABLE)                     # system memory
        say("done")
        wait_for_line()
        """)
    assert line(client) == "done"
    assert run.kinds(client.pid) == {"user": 4 * MIB + 8192, "scratch": 8 * MIB, "queue": 4096, "code": 12288}
    assert run.used() == 12 * MIB + 8192 + 4096 + 12288


def test_the_peak_outlives_the_memory_and_its_process(run):
    pid = run.client("kfd = Kfd(); kfd.free(kfd.allocate(7 * MIB)); kfd.allocate(2 * MIB)")
    finish(pid)
    row = run.process(pid.pid)
    assert not row["alive"]
    assert row["cards"][0]["now"] == 0 and row["cards"][0]["peak"] == 7 * MIB
    assert run.oracle()["cards"][0]["peak"] == 7 * MIB


def test_a_freed_handle_is_given_out_again_and_a_stale_one_is_refused(run):
    out = finish(run.client("""
        kfd = Kfd()
        first, second = kfd.allocate(MIB), kfd.allocate(MIB)
        kfd.free(first)
        say(error_of(kfd.free, first), kfd.allocate(MIB) == first, first >> 32 == FIRST_GPU_ID)
        """))
    assert out.split() == ["EINVAL", "True", "True"]


def test_an_allocation_that_does_not_fit_gets_ENOMEM_and_changes_nothing(run):
    client = run.client("""
        kfd = Kfd()
        kfd.allocate(60 * MIB)
        say(error_of(kfd.allocate, 5 * MIB), kfd.available())
        kfd.allocate(4 * MIB)
        say(kfd.available())
        wait_for_line()
        """, VRAM_MB=64)
    assert line(client).split() == ["ENOMEM", str(4 * MIB)]
    assert line(client) == "0"
    assert run.used() == 64 * MIB
    assert run.oracle()["cards"][0]["refused"] == 2, "one refusal and its retry after burying the dead"


def test_each_card_has_its_own_size_and_memory(run):
    client = run.client("""
        kfd = Kfd()
        kfd.allocate(3 * MIB, card=1)
        say(kfd.available(0), kfd.available(1))
        wait_for_line()
        """, GPUS=2, VRAM_MB="64,32")
    assert line(client).split() == [str(64 * MIB), str(28 * MIB)]
    assert run.used(0) == 0 and run.used(1) == 3 * MIB


def test_two_processes_share_one_card(run):
    holder = run.client("Kfd().allocate(40 * MIB); say('held'); wait_for_line()", VRAM_MB=64)
    assert line(holder) == "held"
    other = run.client("kfd = Kfd(); say(kfd.available(), error_of(kfd.allocate, 30 * MIB)); kfd.allocate(24 * MIB)")
    assert finish(other).split() == [str(24 * MIB), "ENOMEM"]


def test_the_memory_of_a_killed_process_goes_to_the_next_caller(run):
    holder = run.client("Kfd().allocate(40 * MIB); say('held'); wait_for_line()", VRAM_MB=64)
    assert line(holder) == "held"
    other = run.client("kfd = Kfd(); say('ready'); wait_for_line(); kfd.allocate(50 * MIB); say('got it')", VRAM_MB=64)
    assert line(other) == "ready"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    answer(other)
    assert line(other) == "got it"


def test_the_oracle_shows_a_killed_process_holding_nothing(run):
    holder = run.client("Kfd().allocate(40 * MIB); say('held'); wait_for_line()", VRAM_MB=64)
    assert line(holder) == "held" and run.used() == 40 * MIB
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert run.used() == 0


def test_processes_killed_at_any_moment_leave_sums_that_agree(run):
    for delay in range(12):
        clients = [run.client("""
            kfd = Kfd()
            say("running")
            while True:
                handles = [kfd.allocate(MIB * (i + 1)) for i in range(8)]
                for handle in handles:
                    kfd.free(handle)
            """, VRAM_MB=64, LOG="") for _ in range(2)]
        for client in clients:
            line(client)
        time.sleep(0.003 * delay)
        for client in clients:
            client.send_signal(signal.SIGKILL)
            client.wait()
    assert run.used() == 0


def test_a_forked_child_has_no_driver_state_of_its_parents(run):
    client = run.client("""
        kfd = Kfd()
        handle = kfd.allocate(8 * MIB)
        child = os.fork()
        if not child:
            say("inherited", error_of(kfd.free, handle))
            own = Kfd()
            say("own", error_of(own.free, handle))
            own.allocate(2 * MIB)
            say(os.getpid())
            wait_for_line()
            os._exit(0)
        os.waitpid(child, 0)
        kfd.free(handle)
        say("parent freed")
        wait_for_line()
        """)
    assert line(client) == "inherited EBADF"
    assert line(client) == "own EINVAL"
    child = int(line(client))
    assert run.kinds(child) == {"user": 2 * MIB}
    assert run.kinds(client.pid) == {"user": 8 * MIB}
    answer(client)
    assert line(client) == "parent freed"
    assert run.used() == 0


def test_a_process_that_calls_exec_gives_back_what_it_held(run):
    client = run.client("""
        Kfd().allocate(8 * MIB)
        os.execv(sys.executable, [sys.executable, "-c",
                 "from kfd_client import *; Kfd().allocate(MIB); say('after'); wait_for_line()"])
        """)
    assert line(client) == "after"
    assert run.used() == MIB


def test_the_nth_allocation_fails_on_request_and_only_that_one(run):
    out = finish(run.client("""
        kfd = Kfd()
        say(*[error_of(kfd.allocate, MIB).replace(" ", "_") for _ in range(4)])
        """, FAIL_NTH=3))
    assert out.split() == ["no_error", "no_error", "ENOMEM", "no_error"]


# ---- dma-bufs and GEM ----

def test_all_exports_of_one_object_have_one_inode_and_other_objects_another(run):
    out = finish(run.client("""
        kfd = Kfd()
        one, two = kfd.allocate(MIB), kfd.allocate(MIB)
        fds = [kfd.export(one), kfd.export(one), kfd.export(two)]
        inodes = [os.fstat(fd).st_ino for fd in fds]
        size = os.lseek(fds[0], 0, os.SEEK_END)
        say(inodes[0] == inodes[1], inodes[0] == inodes[2], size == MIB)
        """))
    assert out.split() == ["True", "False", "True"]


def test_memory_lives_until_handle_import_and_dma_buf_are_all_gone(run):
    client = run.client("""
        kfd = Kfd()
        handle = kfd.allocate(8 * MIB)
        fd = kfd.export(handle)
        imported = kfd.import_(fd)
        say(imported != handle)
        for step in (lambda: kfd.free(handle), lambda: os.close(fd), lambda: kfd.free(imported)):
            wait_for_line()
            step()
            say("done")
        wait_for_line()
        """)
    assert line(client) == "True"
    for left in (8 * MIB, 8 * MIB, 0):
        answer(client)
        assert line(client) == "done"
        assert run.used() == left


def test_a_dma_buf_that_only_another_process_has_open_keeps_the_memory(run):
    client = run.client("""
        kfd = Kfd()
        handle = kfd.allocate(8 * MIB)
        fd = kfd.export(handle)
        child = os.fork()
        if not child:
            wait_for_line()
            os._exit(0)
        os.close(fd)
        kfd.free(handle)
        say("freed")
        os.waitpid(child, 0)
        kfd.available()
        say("child gone")
        wait_for_line()
        """)
    assert line(client) == "freed"
    assert run.used() == 8 * MIB
    answer(client)
    assert line(client) == "child gone"
    assert run.used() == 0


def test_imported_memory_outlives_its_exporter_and_is_then_the_importers(run):
    path = str(run.folder / "socket")
    exporter = run.client(f"""
        kfd = Kfd()
        fd = kfd.export(kfd.allocate(8 * MIB))
        server = socket.socket(socket.AF_UNIX)
        server.bind({path!r})
        server.listen()
        say("listening")
        peer, _ = server.accept()
        socket.send_fds(peer, [b"x"], [fd])
        wait_for_line()
        """)
    assert line(exporter) == "listening"
    importer = run.client(f"""
        kfd = Kfd()
        peer = socket.socket(socket.AF_UNIX)
        peer.connect({path!r})
        fd = socket.recv_fds(peer, 1, 1)[1][0]
        kfd.import_(fd)
        say("imported")
        wait_for_line()
        """)
    assert line(importer) == "imported"
    assert run.kinds(exporter.pid) == {"user": 8 * MIB} and run.kinds(importer.pid) == {}
    exporter.send_signal(signal.SIGKILL)
    exporter.wait()
    assert run.kinds(importer.pid) == {"user": 8 * MIB}


def test_a_gem_import_gives_one_handle_however_often_and_is_counted_once(run):
    client = run.client("""
        kfd, drm = Kfd(), Drm()
        handle = kfd.allocate(8 * MIB)
        fd = kfd.export(handle)
        gem = drm.import_(fd)
        say(gem == drm.import_(fd), gem != Drm().import_(kfd.export(kfd.allocate(MIB))) or True)
        os.close(fd)
        kfd.free(handle)
        say("held by GEM")
        wait_for_line()
        drm.close_handle(gem)
        say(error_of(drm.close_handle, gem))
        wait_for_line()
        """)
    assert line(client) == "True True"
    assert line(client) == "held by GEM"
    assert run.used() == 9 * MIB
    answer(client)
    assert line(client) == "EINVAL"
    assert run.used() == MIB


def test_gem_memory_is_charged_and_goes_with_the_last_descriptor_of_its_file(run):
    client = run.client("""
        drm = Drm()
        drm.create(8 * MIB)
        drm.create(MIB, domain=2)
        copy = os.dup(drm.fd)
        say("created")
        for fd in (drm.fd, copy):
            wait_for_line()
            os.close(fd)
            say("closed")
        wait_for_line()
        """)
    assert line(client) == "created"
    assert run.kinds(client.pid) == {"other": 8 * MIB}
    for left in (8 * MIB, 0):
        answer(client)
        assert line(client) == "closed"
        assert run.used() == left


# ---- what tests assert about ----

def test_priorities_and_masks_are_logged_as_received(run):
    finish(run.client("""
        kfd = Kfd()
        queue = kfd.create_queue(priority=3)
        kfd.update_queue(queue, 15)
        kfd.set_cu_mask(queue, [0x0000ffff, 0, 0xf0])
        """))
    assert "priority=3 " in run.log("CREATE_QUEUE")[0]
    assert "priority=15 " in run.log("UPDATE_QUEUE")[0]
    assert "bits=96 set=20 mask=0x0000ffff,0x00000000,0x000000f0 " in run.log("SET_CU_MASK")[0]


def test_an_unknown_command_is_refused_aloud(run):
    client = run.client("""
        say(error_of(call, Kfd().fd, kfd_command(0x7e, 8), "Q", 0), error_of(call, Drm().fd, drm_command(0x7e, 8), "Q", 0))
        """)
    out, err = client.communicate(timeout=20)
    assert out.split() == ["EINVAL", "EINVAL"]
    assert "UNKNOWN kfd command 0xc0084b7e" in err and "UNKNOWN drm command 0xc008647e" in err
    assert len(run.log("UNKNOWN")) == 2


def test_an_unknown_command_aborts_when_strict(run):
    client = run.client("call(Kfd().fd, kfd_command(0x7e, 8), 'Q', 0)", STRICT=1)
    client.communicate(timeout=20)
    assert client.returncode == -signal.SIGABRT


def test_the_drivers_accounting_files_agree_with_the_oracle(run):
    out = finish(run.client("""
        Kfd().allocate(8 * MIB, card=1)
        for path in ("/sys/class/drm/renderD129/device/mem_info_vram_used", "/sys/class/drm/card1/device/mem_info_vram_total",
                     "/sys/bus/pci/devices/0000:06:00.0/mem_info_vram_used", "/sys/dev/char/226:129/device/mem_info_vram_used",
                     f"/sys/class/kfd/kfd/proc/{os.getpid()}/vram_{FIRST_GPU_ID + 1}",
                     f"/sys/class/kfd/kfd/proc/{os.getpid()}/vram_{FIRST_GPU_ID}"):
            say(open(path).read().strip())
        say(os.listdir("/sys/class/kfd/kfd/proc") == [str(os.getpid())], os.path.exists("/sys/class/kfd/kfd/proc/1"))
        """, GPUS=2, VRAM_MB=64))
    assert out.split() == [str(8 * MIB), str(64 * MIB), str(8 * MIB), str(8 * MIB), str(8 * MIB), "0", "True", "False"]


def test_a_prefetched_svm_range_takes_vram_only_when_asked_for_and_until_unmapped(run):
    script = """
        import mmap
        kfd, memory = Kfd(), mmap.mmap(-1, 8 * MIB)
        view = (ctypes.c_char * 8).from_buffer(memory)
        kfd.prefetch(ctypes.addressof(view), 8 * MIB, FIRST_GPU_ID)
        say("there")
        wait_for_line()
        del view
        memory.close()
        say("unmapped")
        wait_for_line()
        """
    for asked, taken in ((0, 0), (1, 8 * MIB)):
        client = run.client(script, SVM_VRAM=asked)
        assert line(client) == "there"
        assert run.kinds(client.pid) == ({"svm": taken} if taken else {})
        answer(client)
        assert line(client) == "unmapped"
        assert run.used() == 0


def test_a_queues_save_area_is_the_queues_and_takes_vram_only_when_asked_for(run):
    script = """
        import mmap
        kfd, memory = Kfd(), mmap.mmap(-1, 8 * MIB)
        address = ctypes.addressof((ctypes.c_char * 8).from_buffer(memory))
        kfd.prefetch(address, 8 * MIB, FIRST_GPU_ID)
        kfd.create_queue(save=address)
        say("there")
        wait_for_line()
        """
    for settings, kinds in (({}, {}), ({"SVM_VRAM": 1}, {}), ({"CWSR_VRAM": 1}, {"queue": 8 * MIB}),
                            ({"SVM_VRAM": 1, "CWSR_VRAM": 1}, {"queue": 8 * MIB})):
        client = run.client(script, **settings)
        assert line(client) == "there"
        assert run.kinds(client.pid) == kinds


# ---- files ----

def test_the_folder_of_a_killed_process_is_removed_by_the_next_start_and_a_living_ones_is_not(run):
    folders = lambda: {path.name for path in run.folder.glob("kfdemu*")}
    script = "Kfd(); say('up'); wait_for_line()"
    killed, living = run.client(script), None
    assert line(killed) == "up"
    left = folders()
    assert len(left) == 1
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert folders() == left
    living = run.client(script)
    assert line(living) == "up"
    own = folders()
    assert len(own) == 1 and not own & left
    finish(run.client("Kfd()"))
    assert folders() == own
    answer(living)
    finish(living)
    assert folders() == set()


def test_a_file_that_is_no_oracle_is_left_alone(run):
    run.oracle_file.write_text("somebody's notes")
    client = run.client("Kfd()")
    client.communicate(timeout=20)
    assert client.returncode == -signal.SIGABRT
    assert run.oracle_file.read_text() == "somebody's notes"
    reader = subprocess.run([KFD / "oracle", run.oracle_file], capture_output=True, text=True)
    assert reader.returncode == 1 and "not an oracle" in reader.stderr


def test_a_missing_release_is_a_clear_error_and_leaves_nothing_behind(tmp_path):
    script = KFD.parent / "rocm"
    unknown = subprocess.run([script, "4.5", tmp_path / "none"], capture_output=True, text=True)
    assert unknown.returncode == 1 and "4.5" in unknown.stderr
    empty = tmp_path / "mirror"
    empty.mkdir()
    failed = subprocess.run([script, "6.4", tmp_path / "rocm"], capture_output=True, text=True,
                            env={**os.environ, "SOFTGPU_ROCM_MIRROR": f"file://{empty}"})
    assert failed.returncode == 1 and "ROCm 6.4" in failed.stderr
    assert list(tmp_path.iterdir()) == [empty]


def test_the_readme_names_every_setting():
    readme, table = (KFD / "README.md").read_text(), (KFD / "settings.def").read_text()
    names = re.findall(r'^SETTING\(\w+, "(\w+)"', table, re.M)
    assert len(names) > 10 and [name for name in names if f"| `{name}` |" not in readme] == []


def test_the_next_owner_of_a_dead_processs_lock_finds_sums_that_agree(tmp_path):
    program = tmp_path / "state_death"
    subprocess.run(["gcc", "-std=gnu11", "-g", "-fsanitize=address,undefined", HERE / "state_death.c", "-o", program],
                   check=True)
    done = subprocess.run([program, tmp_path / "oracle"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stderr


def test_a_forked_daemon_that_closes_every_descriptor_still_joins_the_card(run):
    client = run.client("""
        kfd = Kfd()
        kfd.allocate(8 * MIB)
        if not os.fork():
            os.closerange(3, 4096)
            own = Kfd()
            own.allocate(2 * MIB)
            say(os.getpid())
            wait_for_line()
            os._exit(0)
        os.wait()
        """)
    daemon = int(line(client))
    assert run.kinds(daemon) == {"user": 2 * MIB}
    assert run.used() == 10 * MIB

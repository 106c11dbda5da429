"""The stand-in's hardware as several processes see it: capacity, death, visible devices, failures to order, queues, shared memory."""
import shutil
import signal
import subprocess

import pytest

from standin import BUILD, RELEASES, build, command, environment, held, oracle, run, start


@pytest.fixture(autouse=True, scope="module")
def built():
    build()


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


HOLD = """
error, p = malloc({size})
say(error)
sys.stdin.readline()
"""


def holder(size, state, **settings):
    process = start(HOLD.format(size=size), STATE=state, **settings)
    assert process.stdout.readline() == "0\n"
    return process


def end(process):
    process.communicate("\n", timeout=60)


def test_two_processes_of_a_run_share_the_capacity(state):
    first = holder(10 << 30, state)
    assert run("say(malloc(7 * GIB)[0], malloc(6 * GIB)[0], mem()[0])", STATE=state) == ["2 0 0"]
    end(first)
    assert run("say(malloc(16 * GIB)[0])", STATE=state) == ["0"]


def test_processes_without_a_state_are_alone(state):
    first = holder(10 << 30, "")
    assert run("say(malloc(16 * GIB)[0])") == ["0"]
    end(first)


def test_5_2_does_not_see_what_other_processes_hold_but_cannot_have_it(state):
    first = holder(10 << 30, state)
    assert run("say(mem()[0] // GIB, malloc(7 * GIB)[0])", release=52, STATE=state) == ["16 2"]
    end(first)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_the_memory_of_a_killed_process_is_there_for_the_next(state, number):
    first = holder(10 << 30, state)
    assert held(state) == 10 << 30
    first.send_signal(number)
    first.wait()
    assert held(state) == 0
    assert run("say(malloc(16 * GIB)[0])", STATE=state) == ["0"]
    first.stdout.close()


def test_memory_is_taken_back_from_the_dead_at_the_moment_it_is_needed(state):
    waiting = start("say(mem()[0] // GIB); sys.stdin.readline(); say(malloc(16 * GIB)[0])", STATE=state)
    assert waiting.stdout.readline() == "16\n"
    first = holder(10 << 30, state)
    first.kill()
    first.wait()
    assert waiting.communicate("\n", timeout=60)[0] == "0\n"


AFTER_EXEC = """
import ctypes, os
p = ctypes.c_void_p()
print(ctypes.CDLL(os.environ["STANDIN"]).hipMalloc(ctypes.byref(p), ctypes.c_size_t(16 << 30)))
"""


def test_a_program_that_execs_another_leaves_its_memory_behind(state):
    script = f"say(malloc(10 * GIB)[0]); os.execv(sys.executable, [sys.executable, '-c', {AFTER_EXEC!r}])"
    assert run(script, STATE=state) == ["0", "0"]


def test_many_processes_one_after_the_other_leave_nothing_and_use_slots_again(state):
    for _ in range(66):
        assert run("say(malloc(16 * GIB)[0])", STATE=state) == ["0"]
    assert held(state) == 0
    assert len(oracle(state)["processes"]) <= 64


def test_processes_that_compete_for_the_last_bytes_get_them_all_and_no_more(state):
    script = """
        sys.stdin.readline()
        say(sum(malloc(100 * MIB)[0] == 0 for _ in range(100)))
        sys.stdin.readline()
        """
    clients = [start(script, STATE=state) for _ in range(4)]
    for client in clients:
        client.stdin.write("\n")
        client.stdin.flush()
    taken = sum(int(client.stdout.readline()) for client in clients)
    assert taken == 163
    assert held(state) == 16300 << 20
    for client in clients:
        end(client)


def test_the_oracle_says_who_holds_and_held_what(state):
    first = holder(3 << 30, state, DEVICES=2)
    run("p = malloc(5 * GIB)[1]; hip.hipFree(p); malloc(1 * GIB)", STATE=state, DEVICES=2)
    said = oracle(state)
    assert said["devices"]["0"] == {"capacity": 16 << 30, "others": 0, "held": 3 << 30, "peak": 8 << 30}
    assert said["devices"]["1"]["peak"] == 0
    by_life = {p["alive"]: p for p in said["processes"]}
    assert by_life[True]["pid"] == first.pid
    assert by_life[True]["devices"]["0"] == {"held": 3 << 30, "peak": 3 << 30}
    assert by_life[False]["devices"]["0"] == {"held": 0, "peak": 5 << 30}
    end(first)


def test_what_others_hold_is_missing_and_can_change(state):
    script = "say(mem()[0] // GIB, malloc(13 * GIB)[0]); sys.stdin.readline(); say(mem()[0] // GIB)"
    client = start(script, STATE=state, OTHERS="4G")
    assert client.stdout.readline() == "12 2\n"
    subprocess.run([BUILD / "oracle", state, "--others", "0", "15G"], check=True)
    assert client.communicate("\n", timeout=60)[0] == "1\n"


def test_each_device_has_its_own_capacity():
    script = """
        for i in range(3):
            hip.hipSetDevice(i)
            say(mem()[1] // GIB)
        """
    assert run(script, DEVICES=3, CAPACITY="8G,192G,1T") == ["8", "192", "1024"]


def test_memory_is_taken_in_multiples_of_the_granularity(state):
    assert run("f = mem()[0]; malloc(1); say(f - mem()[0])", GRANULARITY="2M") == [str(2 << 20)]


def test_two_hundred_gibibytes_can_be_had():
    script = "e, p = malloc(200 * GIB); ctypes.memset(p.value + 199 * GIB, 7, 10); say(e, hip.hipFree(p), mem()[0] // GIB)"
    assert run(script, CAPACITY="256G") == ["0 0 256"]


UUIDS = "GPU-00000000000000aa,GPU-00000000000000bb,GPU-00000000000000cc"
SEEN = """
n = count()[1]
for i in range(n):
    b = ctypes.create_string_buffer(20)
    hip.hipDeviceGetPCIBusId(b, 20, i)
    say(b.value.decode())
say(count())
"""


def bus(*devices):
    return [f"0000:{d + 1:02x}:00.0" for d in devices]


@pytest.mark.parametrize("settings, devices", [
    ({}, (0, 1, 2)),
    ({"ROCR_VISIBLE_DEVICES": "2,0"}, (2, 0)),
    ({"ROCR_VISIBLE_DEVICES": "GPU-00000000000000bb,0"}, (1, 0)),
    ({"ROCR_VISIBLE_DEVICES": "1,7,0"}, (1,)),
    ({"ROCR_VISIBLE_DEVICES": "1,1"}, (1,)),
    ({"HIP_VISIBLE_DEVICES": "1"}, (1,)),
    ({"HIP_VISIBLE_DEVICES": ""}, (0, 1, 2)),
    ({"CUDA_VISIBLE_DEVICES": "2,1"}, (2, 1)),
    ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "2"}, (0,)),
    ({"HIP_VISIBLE_DEVICES": "GPU-00000000000000cc"}, (2,)),
    ({"ROCR_VISIBLE_DEVICES": "2,1", "HIP_VISIBLE_DEVICES": "1,0"}, (1, 2)),
    ({"ROCR_VISIBLE_DEVICES": "2,1", "HIP_VISIBLE_DEVICES": "1,2"}, (1,)),
])
def test_visible_devices_are_numbered_first_by_rocr_and_then_by_hip(settings, devices):
    assert run(SEEN, DEVICES=3, UUIDS=UUIDS, **settings) == [*bus(*devices), f"(0, {len(devices)})"]


@pytest.mark.parametrize("settings", [{"DEVICES": 0}, {"ROCR_VISIBLE_DEVICES": ""}, {"HIP_VISIBLE_DEVICES": "-1"}])
def test_without_a_visible_device_every_function_says_so(settings):
    assert run("say(count(), malloc(1)[0], hip.hipGetLastError(), hip.hipInit(0))", **settings) == ["(100, 0) 100 100 100"]


def test_visible_devices_share_the_memory_of_the_physical_ones(state):
    first = holder(10 << 30, state, DEVICES=2, ROCR_VISIBLE_DEVICES="1")
    assert run("say(mem()[0] // GIB); hip.hipSetDevice(1); say(mem()[0] // GIB)", DEVICES=2, STATE=state) == ["16", "6"]
    assert held(state, 1) == 10 << 30
    end(first)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("order, answers", [
    ("hipMalloc:3", "0 0 2 0 0"),
    ("hipMalloc:3:100", "0 0 100 0 0"),
    ("hipMalloc:3+", "0 0 2 2 2"),
    ("hipFree:1,hipMalloc:2", "0 2 0 0 0"),
    ("hipMallocArray:1", "0 0 0 0 0"),
])
def test_the_nth_call_of_a_function_fails_to_order(release, order, answers):
    assert run("say(*[malloc(1)[0] for _ in range(5)])", release=release, FAIL=order) == [answers]


def test_a_function_of_hsa_fails_to_order_and_hip_says_what_follows():
    assert run("say(*[malloc(1)[0] for _ in range(3)])", FAIL="hsa_amd_memory_pool_allocate:2") == ["0 2 0"]
    assert run("s = c_void_p(); say(hip.hipStreamCreate(byref(s)))", FAIL="hsa_queue_create:1") == ["2"]


def test_an_order_that_names_no_function_ends_the_program():
    done = subprocess.run(command("malloc(1)"), env=environment(72, FAIL="hipMallok:1"), capture_output=True, text=True)
    assert done.returncode == -signal.SIGABRT and "hipMallok" in done.stderr


def test_a_failure_to_order_takes_nothing_and_is_the_last_error():
    script = "f = mem()[0]; e = malloc(5)[0]; say(e, hip.hipPeekAtLastError(), f - mem()[0])"
    assert run(script, FAIL="hipMalloc:1") == ["2 2 0"]


def test_managed_memory_can_be_missing():
    script = "p = c_void_p(); say(hip.hipMallocManaged(byref(p), c_size_t(100), 1))"
    assert run(script, MANAGED=0) == ["801"]
    assert run(script) == ["0"]


def test_a_context_takes_memory_of_every_device_if_told_so(state):
    assert run("say(16 * GIB - mem()[0])", STATE=state, CONTEXT="1M") == [str(1 << 20)]


FORK = """
malloc(5 * MIB)
if os.fork() == 0:
    say(malloc(MIB)[0])
    os._exit(0)
os.wait()
say(malloc(MIB)[0])
"""


def test_a_child_forked_after_initialisation_can_have_nothing_as_in_reality(state):
    assert run(FORK, STATE=state) == ["2", "0"]


def test_a_child_forked_after_initialisation_starts_anew_if_told_so(state):
    assert run(FORK, STATE=state, FORK=1) == ["0", "0"]


def test_a_child_forked_before_initialisation_is_a_process_like_any_other(state):
    script = """
        if os.fork() == 0:
            say(malloc(MIB)[0])
            os._exit(0)
        os.wait()
        say(malloc(16 * GIB)[0])
        """
    assert run(script, STATE=state) == ["0", "0"]


def log_of(tmp_path, script, **settings):
    log = tmp_path / "log"
    run(script, LOG=log, **settings)
    return [line.split() for line in log.read_text().splitlines()]


PRIORITIES = """
s = c_void_p()
for priority in (-1, 0, 1):
    assert hip.hipStreamCreateWithPriority(byref(s), 1, priority) == 0
"""


@pytest.mark.parametrize("release", RELEASES)
def test_queues_are_logged_with_the_priority_of_their_stream(release, tmp_path):
    events = log_of(tmp_path, PRIORITIES, release=release)
    assert [e[0] for e in events] == ["hsa_init", "queue_create", "queue_set_priority", "queue_create", "queue_create",
                                      "queue_set_priority"]
    assert [e[4] for e in events if e[0] == "queue_set_priority"] == ["priority=high", "priority=low"]
    assert all("priority=normal" in e for e in events if e[0] == "queue_create")


def test_queues_are_logged_with_the_mask_that_hsa_init_saw(tmp_path):
    events = log_of(tmp_path, PRIORITIES, HSA_CU_MASK="0:0-7")
    assert "HSA_CU_MASK=0:0-7" in events[0]
    assert all("cu_mask=0:0-7" in e for e in events if e[0] == "queue_create")


def test_the_mask_is_not_applied_if_its_initialisation_is_skipped(tmp_path):
    events = log_of(tmp_path, PRIORITIES, HSA_CU_MASK="0:0-7", HSA_CU_MASK_SKIP_INIT="1")
    assert "HSA_CU_MASK_SKIP_INIT=1" in events[0]
    assert all("cu_mask=-" in e for e in events if e[0] == "queue_create")


def test_the_null_stream_has_a_queue_from_its_first_use(tmp_path):
    script = "e, p = malloc(64); hip.hipMemset(p, 0, c_size_t(64)); hip.hipMemset(p, 0, c_size_t(64))"
    assert [e[0] for e in log_of(tmp_path, script)] == ["hsa_init", "queue_create"]


def test_the_environment_is_read_at_the_first_call_and_not_before(tmp_path):
    log = tmp_path / "log"
    libc = "ctypes.CDLL(None).setenv(b'HSA_CU_MASK', b'0:3', 1)"
    run(f"{libc}; malloc(1)", LOG=log)
    assert "HSA_CU_MASK=0:3" in log.read_text()


def test_an_ipc_handle_shows_the_exporters_memory_and_takes_none(state):
    exporter = start("""
        e, p = malloc(3 * MIB)
        ctypes.memset(p, 5, 100)
        handle = ctypes.create_string_buffer(64)
        say(hip.hipIpcGetMemHandle(handle, p), handle.raw.hex())
        sys.stdin.readline()
        say(ctypes.string_at(p, 1)[0], hip.hipFree(p))
        """, STATE=state)
    error, handle = exporter.stdout.readline().split()
    assert error == "0"
    importer = f"""
        class Handle(ctypes.Structure):
            _fields_ = [("raw", ctypes.c_char * 64)]
        handle = Handle.from_buffer_copy(bytes.fromhex("{handle}"))
        p = c_void_p()
        say(hip.hipIpcOpenMemHandle(byref(p), handle, 0))
        say(hip.hipIpcOpenMemHandle(byref(p), handle, 1))
        say(ctypes.string_at(p, 1)[0])
        ctypes.memset(p, 6, 1)
        say(hip.hipIpcCloseMemHandle(p))
        """
    assert run(importer, STATE=state) == ["1", "0", "5", "0"]
    assert held(state) == 3 << 20
    assert exporter.communicate("\n", timeout=60)[0] == "6 0\n"


@pytest.mark.parametrize("release", [64, 72])
def test_hipGetProcAddress_finds_by_dlsym_and_knows_the_rule_of_the_properties(release):
    script = """
        find = hip.hipGetProcAddress
        p, status = c_void_p(), c_int(7)
        def found(name, version):
            error = find(name, byref(p), version, ctypes.c_uint64(0), byref(status))
            return error, status.value, p.value if not error else None
        address = lambda name: ctypes.cast(getattr(lib, name), c_void_p).value
        lib = ctypes.CDLL("libamdhip64.so")
        say(found(b"hipMalloc", 700) == (0, 0, address("hipMalloc")))
        say(found(b"hipGetDeviceProperties", 60443484) == (0, 0, address("hipGetDevicePropertiesR0600")))
        say(found(b"hipGetDeviceProperties", 500) == (0, 0, address("hipGetDeviceProperties")))
        say(found(b"hipNoSuchThing", 700)[:2])
        """
    env = environment(release)
    env["LD_LIBRARY_PATH"] = str(BUILD)
    done = subprocess.run(command(script), env=env, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["True", "True", "True", "(1, 1)"], done.stderr


def test_hipGetProcAddress_finds_nothing_without_the_unversioned_name(tmp_path):
    for name in ("libamdhip64.so.7", "libhsa-runtime64.so.1"):
        shutil.copy(BUILD / name, tmp_path / name)
    script = "p, s = c_void_p(), c_int(7); say(hip.hipGetProcAddress(b'hipMalloc', byref(p), 700, ctypes.c_uint64(0), byref(s)), s.value)"
    env = environment(72) | {"STANDIN": str(tmp_path / "libamdhip64.so.7")}
    done = subprocess.run(command(script), env=env, capture_output=True, text=True)
    assert done.stdout == "1 7\n", done.stderr


def test_the_runtime_can_be_unloaded_and_loaded_again():
    script = """
        import threading
        malloc(100)
        thread = threading.Thread(target=lambda: malloc(100))
        thread.start()
        thread.join()
        handle = hip._handle
        dlclose = ctypes.CDLL(None).dlclose
        dlclose.argtypes = [c_void_p]
        dlclose(handle)
        hip = ctypes.CDLL(os.environ["STANDIN"])
        say(malloc(100)[0])
        """
    assert run(script) == ["0"]

"""Large programs and libraries that nobody here wrote, on unmodified runtimes: what they show without us, and under a limit.

No kernel is carried out, so a program that computes is followed as far as it gets; what it takes from the card is counted."""
import pathlib
import re
import socket
import sys
import time

import pytest
from conftest import GIB, MIB, ROOT, compile_c

sys.path.insert(0, str(ROOT / "test" / "real"))
from gguf import write_model  # noqa: E402
from real_pod import several  # noqa: E402
from real_programs import CARD, LIB, LIMIT, Programs  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("clients")]  # the first run downloads; one worker waits for it

WITH_UCX_ROCM = ("5.7", "6.4", "7.2")


@pytest.fixture
def unpack(tmp_path):
    """Programs of a set, in a pod of their own."""
    yield from several(tmp_path, Programs)


# ---- UCX: transfers between buffers on the card ----

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_it_listens(process, port):
    """Without connecting: the program serves the first that does."""
    listens = f":{port:04X} 00000000:0000 0A "
    for _ in range(600):
        if listens in pathlib.Path("/proc/net/tcp").read_text():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("does not listen")


def ucx_transfer(programs, size, **options):
    """Puts between two programs (5.7's ucx_perftest speaks MPI instead: one program, with itself); the status and the texts.

    UCX's cache of memory types is off: with it UCX takes its own buffer for host memory here, without us as well."""
    ucx = dict(UCX_MODULE_DIR=programs.root / LIB / "ucx", UCX_MEMTYPE_CACHE="n", UCX_TLS="rocm_ipc,rocm_copy,sm,self,tcp",
               **options)
    line = ["ucx_perftest", "-m", "rocm", "-t", "ucp_put_bw", "-s", str(size), "-n", "2", "-w", "0", "-f"]
    if programs.release == "5.7":
        return programs.output(*line, "-l", **ucx)
    port = free_port()
    server = programs.start(*line, "-p", str(port), **ucx)
    try:
        wait_until_it_listens(server, port)
        status, out, err = programs.output(line[0], "127.0.0.1", *line[1:], "-p", str(port), **ucx)
        text = server.communicate(timeout=60)
    finally:
        server.kill()
    return status or server.returncode, out + text[0], err + text[1]


def without_us(limit):
    return dict(audit=None, limit=None) if limit is None else dict(limit=limit)


@pytest.mark.parametrize("release", WITH_UCX_ROCM)
def test_ucx_transfers_on_the_card_and_stops_at_the_limit(unpack, release):
    buffers = 2 if release == "5.7" else 4
    for limit in (None, 256 * MIB):
        programs = unpack(release)
        status, out, err = ucx_transfer(programs, 16 * MIB, **without_us(limit))
        assert status == 0, err
        assert programs.peak() >= buffers * 16 * MIB
        assert release == "5.7" or programs.pod.log("IMPORT"), "one program wrote into the other's buffer"
    status, out, err = ucx_transfer(programs, 256 * MIB // buffers + 16 * MIB, limit=256 * MIB)
    assert status != 0 and "using md rocm_cpy" in out and "Failed to run test: Out of memory" in out, err
    assert programs.peak() <= 256 * MIB


# ---- StarPU: tasks on the card where they fit, on the processor otherwise ----

STARPU = dict(STARPU_NCPU=1, STARPU_NHIP=1, STARPU_NOPENCL=0)

STARPU_BUFFERS = """
import ctypes
starpu = ctypes.CDLL("libstarpu-1.4.so.9")
starpu.starpu_malloc_on_node.restype = ctypes.c_size_t
assert starpu.starpu_init(None) == 0
card, got = starpu.starpu_memory_nodes_get_count() - 1, 0
while got < 100 and starpu.starpu_malloc_on_node(card, ctypes.c_size_t(256 << 20)):
    got += 1
print("got", got)
starpu.starpu_shutdown()
"""


def test_starpu_plans_with_nine_tenths_of_the_limit(unpack):
    programs = unpack("6.4-large")
    for run, size in ((programs.output, LIMIT), (programs.bare, CARD)):
        status, out, err = run("starpu_machine_display", **STARPU)
        assert status == 0, err
        assert re.findall(r"HIP 0\.0 \(.* ([\d.]+) GiB\)", out)[0] == f"{0.9 * size / (1 << 30):.1f}"


def test_starpu_gets_no_more_than_the_limit_whatever_it_was_told_to_use(unpack):
    programs = unpack("6.4-large")
    script = programs.script("buffers.py", STARPU_BUFFERS)
    for run, size in ((programs.output, LIMIT), (programs.bare, CARD)):
        status, out, err = run(script, STARPU_LIMIT_HIP_MEM=99999, **STARPU)
        assert (status, out.split()[-2:]) == (0, ["got", str(size // (256 * MIB) - 1)]), err  # the queues take from the last


def test_a_starpu_example_runs_on_the_card_and_on_the_processor_where_its_vector_does_not_fit(unpack):
    programs = unpack("6.4-large")
    example = programs.root / LIB / "starpu" / "examples" / "vector_scal"
    programs.output(example, **dict(STARPU, STARPU_NCPU=0))
    assert programs.pod.log("vector_mult_hip")
    small = unpack("6.4-large")
    status, out, err = small.output(example, limit="512K", **STARPU)  # the vector has 800 KiB
    assert status == 0 and "Computation is correct" in out + err
    assert not small.pod.log("vector_mult_hip")


# ---- rocBLAS: AMD's own bench, and a handle's workspace ----

ROCBLAS_WORKSPACE = """
import ctypes
rocblas, handle = ctypes.CDLL("librocblas.so.4"), ctypes.c_void_p()
assert rocblas.rocblas_create_handle(ctypes.byref(handle)) == 0
print(*(rocblas.rocblas_set_device_memory_size(handle, ctypes.c_size_t(gib << 30)) for gib in (1, 3, 5)))
assert rocblas.rocblas_destroy_handle(handle) == 0
"""


def test_rocblas_bench_reports_the_limit(unpack):
    """Then it ends: librocm_smi64 does not start on emulated cards."""
    programs = unpack("6.4-large")
    bench = programs.root / "usr" / "libexec" / "rocm" / "librocblas4-bench" / "rocblas-bench"
    for run, size in ((programs.output, LIMIT), (programs.bare, CARD)):
        status, out, err = run(bench, "-f", "axpy", "-r", "s", "-n", "1000")
        assert re.findall(r"with ([\d.]+) GB memory", out) == [f"{size / 1e9:.1f}"] * 2, err


def test_a_rocblas_workspace_is_refused_over_the_limit(unpack):
    programs = unpack("6.4-large")
    script = programs.script("workspace.py", ROCBLAS_WORKSPACE)
    memory_error = 5
    for run, third in ((programs.output, memory_error), (programs.bare, 0)):
        status, out, err = run(script)
        assert (status, out.split()) == (0, ["0", "0", str(third)]), err


# ---- RCCL: AMD's own unit tests ----

def rccl_broadcast(programs, **options):
    """RCCL's test of ncclBroadcast between two cards: 1 Mi floats. It ends by comparing, which no emulated card can pass."""
    monitor = programs.libraries / "librocm_smi64.so.1"
    monitor.unlink()
    monitor.symlink_to(compile_c("test/real/smi.c", "librocm_smi64.so.1", "-shared", "-fPIC"))
    tests = programs.root / "usr" / "libexec" / "rocm" / "librccl1-tests" / "UnitTests"
    status, out, err = programs.output(tests, "--gtest_filter=Broadcast.OutOfPlace", UT_DATATYPES="float", UT_PROCESS_MASK=1,
                                       NCCL_SOCKET_IFNAME="lo", **options)
    return out + err


# Of two ranks at once, whose allocation is refused differs from run to run: a buffer of the test's, or a block of ROCr's own.
REFUSED = re.compile(r"Unable to allocate memory of GPU memory \(4194304 bytes\)|BlockAllocator::alloc failed")


def test_rccls_own_tests_run_up_to_the_kernels_under_a_limit_and_are_refused_as_by_a_small_card(unpack):
    programs = unpack("5.7")
    said = rccl_broadcast(programs, limit=64 * MIB)
    assert "Total executed cases: 1" in said and "output does not match expected" in said.lower(), said
    assert not REFUSED.search(said)
    for card in (0, 1):
        assert 8 * MIB < programs.peak(card) <= 64 * MIB
    for options, limit in ((dict(vram_mb=22), None), ({}, 22 * MIB)):
        programs = unpack("5.7", **options)
        said = rccl_broadcast(programs, **without_us(limit))
        assert REFUSED.search(said), said
        assert programs.peak() <= 22 * MIB


# ---- SpFFT: a library on rocFFT and MPI ----

SPFFT_GRID = """
import ctypes
spfft, grid, on_the_card = ctypes.CDLL("libspfft.so.1"), ctypes.c_void_p(), 2
print("grid", spfft.spfft_grid_create(ctypes.byref(grid), 128, 128, 128, 128 * 128, on_the_card, 1))
if grid.value:
    print("end", spfft.spfft_grid_destroy(grid))
"""


def test_an_spfft_grid_is_refused_under_a_limit_as_by_a_small_card(unpack):
    gpu_allocation_error = 16  # SPFFT_GPU_ALLOCATION_ERROR
    for options, limit, answer in (({}, None, 0), ({}, 96 * MIB, 0), (dict(vram_mb=48), None, gpu_allocation_error),
                                   ({}, 48 * MIB, gpu_allocation_error)):
        programs = unpack("5.7", **options)
        status, out, err = programs.output(programs.script("grid.py", SPFFT_GRID), **without_us(limit))
        assert status == 0 and out.startswith(f"grid {answer}\n"), out + err
        assert answer or programs.peak() >= 64 * MIB  # two buffers of 128^3 complex numbers


# ---- llama.cpp: a large HIP program ----

def test_llama_cpp_lists_the_cards_with_the_limit(unpack):
    llama = unpack("6.4-large")
    backend = llama.root / LIB / "ggml" / "backends0" / "libggml-hip.so"
    for run, mib in ((llama.output, LIMIT >> 20), (llama.bare, CARD >> 20)):
        status, out, err = run("llama-cli", "--list-devices", GGML_BACKEND_PATH=backend)
        assert status == 0, err
        assert re.findall(r"ROCm(\d): .*\((\d+) MiB, (\d+) MiB free\)", out) == [
            ("0", str(mib), str(mib)), ("1", str(mib), str(mib))], out


LOAD_BUFFERS = """
import ctypes, sys
base, ggml = ctypes.CDLL("libggml-base.so.0"), ctypes.CDLL("libggml.so.0")
for function in (ggml.ggml_backend_load, ggml.ggml_backend_dev_by_name, base.ggml_backend_dev_buffer_type,
                 base.ggml_backend_buft_alloc_buffer):
    function.restype = ctypes.c_void_p
ggml.ggml_backend_load(sys.argv[1].encode())
card = ctypes.c_void_p(ggml.ggml_backend_dev_by_name(b"ROCm0"))
kind = ctypes.c_void_p(base.ggml_backend_dev_buffer_type(card))
loaded = 0
while loaded < 64 and base.ggml_backend_buft_alloc_buffer(kind, ctypes.c_size_t(512 << 20)):
    loaded += 1
print("loaded", loaded)
"""


def test_llama_cpp_loads_buffers_up_to_the_limit_and_is_told_out_of_memory(unpack):
    llama = unpack("6.4-large")
    script = llama.script("buffers.py", LOAD_BUFFERS)
    backend = llama.root / LIB / "ggml" / "backends0" / "libggml-hip.so"
    for run, most in ((llama.output, LIMIT // (512 << 20)), (llama.bare, CARD // (512 << 20))):
        status, out, err = run(script, backend)
        assert (status, out.split()[-2:]) == (0, ["loaded", str(most)]), err
        assert "out of memory" in err


def bench_model(llama, model, **options):
    """llama-bench finds its backends in the folder it is started in."""
    return llama.output("llama-bench", "-m", model, "-ngl", "99", "-p", "0", "-n", "1", "-r", "1", "-mg", "0", "-sm", "none",
                        cwd=llama.root / LIB / "ggml" / "backends0", **options)


def test_llama_cpp_loads_a_model_and_computes_a_token_unless_its_weights_pass_the_limit(unpack, tmp_path):
    model = tmp_path / "model.gguf"
    weights = write_model(model)  # 512 MiB, of which the disk holds nothing
    for limit in (None, GIB):
        llama = unpack("6.4-large")
        status, out, err = bench_model(llama, model, **without_us(limit))
        assert status == 0 and re.search(r"ROCm .* tg1 ", out), err
        assert weights <= llama.peak() <= GIB
    llama = unpack("6.4-large")
    status, out, err = bench_model(llama, model, limit=256 * MIB)
    assert status == 1 and "out of memory" in err and "failed to load model" in err
    assert llama.peak() <= 256 * MIB

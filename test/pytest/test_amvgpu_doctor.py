"""amvgpu doctor: each way to lose enforcement has its own code, and only what is enforced exits with 0.

A small HIP of our own stands in for the runtime here, so that each loss can be had alone.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
from tool import GIB, ROOT, Tool, build_actor, build_emulated_driver, build_library, build_program, build_runtime, need  # noqa: E402

NOTES = {"POD_SPEC_UNREADABLE"}  # depends on the machine the tests run on; a test of its own has both


class Clinic:
    """A healthy patient: everything is as it should be. Each test breaks one thing."""

    def __init__(self, tmp_path):
        self.tmp = tmp_path
        self.tool = Tool(tmp_path / "runtime")
        (tmp_path / "runtime").mkdir()
        self.root = tmp_path / "sysroot"
        for folder in ("proc/1", "proc/self", "dev", "sys/fs/cgroup"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "proc/1/environ").write_bytes(b"PATH=/bin\0")
        (self.root / "dev/kfd").write_text("")
        self.library = tmp_path / "vgpu" / "libamvgpu.so"
        self.library.parent.mkdir()
        shutil.copy(build_library(), self.library)
        self.environment = {
            "LD_AUDIT": str(self.library),
            "HIP_DEVICE_MEMORY_LIMIT_0": "1G",
            "HIP_DEVICE_MEMORY_SHARED_CACHE": str(tmp_path / "region"),
            "LD_LIBRARY_PATH": str(build_runtime()),
            "SOFTGPU_CAPACITY": "4G",
        }

    def pod(self, **variables):
        (self.root / "proc/1/environ").write_bytes(b"".join(f"{k}={v}\0".encode() for k, v in variables.items()))

    def examine(self, *program, options=(), **run):
        command = ["doctor", "--json", "--sysroot", self.root, *options, *(["--", *program] if program else [])]
        environment = self.tool.environment | self.environment
        done = subprocess.run([self.tool.path, *map(str, command)], capture_output=True, text=True, timeout=60,
                              env={k: v for k, v in environment.items() if v is not None}, **run)
        report = json.loads(done.stdout)
        assert report["enforced"] == (done.returncode == 0), "the report and the exit status disagree"
        return report


@pytest.fixture
def clinic(tmp_path):
    return Clinic(tmp_path)


def not_loaded(code):
    """What follows from a library that is not loaded: the program runs without it and sees the whole card."""
    return {code, "LIBRARY_NOT_LOADED", "TOTAL_WRONG"}


def codes(report, level=None):
    return {f["code"] for f in report["findings"] if level in (None, f["level"])} - NOTES


def losses(report):
    return codes(report, "loss")


def compiled(tmp_path, name, text="int main(void) { return 0; }\n", flags=(), compiler="gcc"):
    source = tmp_path / f"{name}.c"
    source.write_text(text)
    subprocess.run([compiler, "-o", tmp_path / name, source, *flags], check=True)
    return tmp_path / name


def allocating_program():
    return build_program("allocate", ROOT / "test/container/allocate.c", flags=["-ldl"])


# --- healthy ---------------------------------------------------------------------------------------------------------

def test_a_healthy_pod_is_enforced_without_a_finding(clinic):
    report = clinic.examine()
    assert report["enforced"] and codes(report) == set()
    probe = report["processes"][0]
    assert probe["probe"] and probe["symbols_bound"] == probe["symbols_wanted"] > 20


def test_a_program_that_allocates_is_enforced_and_its_slot_is_read_back(clinic):
    report = clinic.examine(allocating_program(), "64M")
    assert report["enforced"] and codes(report) == set()
    program = [p for p in report["processes"] if not p["probe"]][0]
    assert program["state"] == "enforced" and program["region"] == clinic.environment["HIP_DEVICE_MEMORY_SHARED_CACHE"]
    assert program["symbols_bound"] == program["symbols_wanted"] > 20


def test_a_program_started_by_a_shell_is_found_too(clinic):
    report = clinic.examine("sh", "-c", f"{allocating_program()} 64M; true")
    assert report["enforced"]
    assert [p["command"] for p in report["processes"] if not p["probe"]] == ["allocate"]


def test_a_program_that_never_ends_is_stopped_after_the_seconds_given(clinic):
    report = clinic.examine(allocating_program(), "64M", "forever", options=["--seconds", "1"])
    assert report["enforced"]


def test_the_text_says_what_is_bound_and_the_programs_output_is_kept(clinic):
    done = clinic.tool("doctor", "--sysroot", clinic.root, "--", allocating_program(), "64M", environment=clinic.environment)
    assert done.returncode == 0
    assert "granted" in done.stdout
    assert re.search(r"program +pid \d+ \(allocate\): bound (\d+) of \1 symbols, enforced, region ", done.stdout)
    assert done.stdout.rstrip().endswith("enforced: yes (0 lost, 0 warnings)")


# --- the environment -------------------------------------------------------------------------------------------------

def test_ld_audit_unset(clinic):
    clinic.environment["LD_AUDIT"] = None
    assert "AUDIT_UNSET" in losses(clinic.examine())


def test_ld_audit_of_the_pod_lost_by_this_process(clinic):
    clinic.pod(LD_AUDIT=clinic.library)
    clinic.environment["LD_AUDIT"] = None
    found = losses(clinic.examine())
    assert "AUDIT_EMPTIED" in found and "AUDIT_UNSET" not in found


@pytest.mark.parametrize("name", ["LD_AUDT", "LD_AUDITT", "LDAUDIT", "ld_audit"])
def test_ld_audit_misspelt(clinic, name):
    clinic.environment[name] = clinic.environment["LD_AUDIT"]
    clinic.environment["LD_AUDIT"] = None
    assert {"AUDIT_UNSET", "VARIABLE_MISSPELT"} <= losses(clinic.examine(options=["--no-probe"]))


@pytest.mark.parametrize("name", ["HIP_DEVICE_MEMORY_LIMT_0", "HIP_DEVICE_MEMORY_LIMIT0", "HIP_DEVICE_MEMORY_LIMIT_64",
                                  "HIP_DEVICE_MEMROY_LIMIT", "HIP_DEVICE_MEMORY_LIMIT_x", "HSA_CU_MASKS", "AMD_TASK_PRIORTY"])
def test_a_setting_misspelt(clinic, name):
    clinic.environment[name] = "1G"
    report = clinic.examine(options=["--no-probe"])
    assert losses(report) == {"VARIABLE_MISSPELT"}
    assert name in [f for f in report["findings"] if f["code"] == "VARIABLE_MISSPELT"][0]["detail"]


def test_a_misspelt_setting_of_the_pod_is_found(clinic):
    clinic.pod(HIP_DEVICE_MEMORY_LIMITS="1G")
    assert losses(clinic.examine(options=["--no-probe"])) == {"VARIABLE_MISSPELT"}


@pytest.mark.parametrize("name", ["HIP_DEVICE_MEMORY_LIMIT_63", "CUDA_DEVICE_MEMORY_LIMIT_0", "HIP_VISIBLE_DEVICES", "LD_DEBUG_OUTPUT",
                                  "HSA_TOOLS_LIB", "GPU_DEVICE_ORDINAL", "HIP_LAUNCH_BLOCKING", "ROCM_PATH", "HIP_PATH"])
def test_a_variable_of_somebody_else_is_not_called_misspelt(clinic, name):
    clinic.environment[name] = "1"
    assert "VARIABLE_MISSPELT" not in codes(clinic.examine(options=["--no-probe"]))


def test_no_limit_set(clinic):
    clinic.environment["HIP_DEVICE_MEMORY_LIMIT_0"] = None
    assert losses(clinic.examine()) == {"LIMIT_UNSET"}


@pytest.mark.parametrize("value", ["1.5G", "4GiB", "-1", "", "lots"])
def test_a_limit_that_cannot_be_read(clinic, value):
    clinic.environment["HIP_DEVICE_MEMORY_LIMIT_0"] = value
    report = clinic.examine()
    assert "LIMIT_INVALID" in losses(report)


def test_a_limit_above_the_pods_is_noted_and_nothing_is_lost(clinic):
    clinic.pod(HIP_DEVICE_MEMORY_LIMIT_0="512m")
    report = clinic.examine(options=["--no-probe"])
    assert codes(report, "note") == {"LIMIT_RAISE_IGNORED"} and not losses(report)


@pytest.mark.parametrize("mask", ["0", "0:", "0:1-", "0:0-15;0:1", "0:0-15;", "0:x", "0:0-2000", "x:1"])
def test_a_mask_with_an_error(clinic, mask):
    clinic.environment["HSA_CU_MASK"] = mask
    assert losses(clinic.examine(options=["--no-probe"])) == {"MASK_INVALID"}


@pytest.mark.parametrize("mask", ["0:0-15", "0:0-15,32-47;1:0-15", "0,1:0-3", "0-1:5"])
def test_a_mask_without_an_error(clinic, mask):
    clinic.environment["HSA_CU_MASK"] = mask
    assert "MASK_INVALID" not in codes(clinic.examine(options=["--no-probe"]))


def test_a_priority_that_is_no_number(clinic):
    clinic.environment["AMD_TASK_PRIORITY"] = "high"
    assert codes(clinic.examine(options=["--no-probe"]), "warning") == {"PRIORITY_INVALID"}


def test_the_pod_specification_unreadable_is_a_note(clinic):
    (clinic.root / "proc/1/environ").unlink()
    report = clinic.examine()
    assert "POD_SPEC_UNREADABLE" in {f["code"] for f in report["findings"] if f["level"] == "note"}
    assert report["enforced"]


# --- the library's file ----------------------------------------------------------------------------------------------

def test_library_missing(clinic):
    clinic.library.unlink()
    assert not_loaded("LIBRARY_MISSING") == losses(clinic.examine())


def test_a_folder_in_the_librarys_place(clinic):
    clinic.library.unlink()
    clinic.library.mkdir()
    assert not_loaded("LIBRARY_IS_FOLDER") == losses(clinic.examine())


def test_library_unreadable_for_an_ordinary_user(clinic):
    clinic.library.chmod(0o700)
    clinic.environment["XDG_RUNTIME_DIR"] = None
    open_for_others(clinic.tmp)
    assert {"LIBRARY_UNREADABLE", "LIBRARY_NOT_LOADED"} <= losses(clinic.examine(user=65534, group=65534))


def open_for_others(folder):
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.getuid() and path != pathlib.Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    folder.chmod(0o777)


def test_library_cut_short(clinic):
    clinic.library.write_bytes(clinic.library.read_bytes()[:500])
    assert not_loaded("LIBRARY_BROKEN") == losses(clinic.examine())


def test_library_cut_short_so_that_every_program_crashes_is_found_when_doctor_itself_runs_without_it(clinic):
    """ld.so maps it before it looks at its size: any program dies of SIGBUS, doctor too. Without the variable it tells."""
    clinic.library.write_bytes(clinic.library.read_bytes()[:20000])
    assert clinic.tool("version", environment=clinic.environment).returncode < 0
    clinic.pod(LD_AUDIT=clinic.library)
    clinic.environment["LD_AUDIT"] = None
    assert {"AUDIT_EMPTIED", "LIBRARY_BROKEN"} <= losses(clinic.examine())


def test_library_of_zero_bytes(clinic):
    clinic.library.write_bytes(b"")
    assert not_loaded("LIBRARY_BROKEN") == losses(clinic.examine())


def test_library_for_another_processor(clinic):
    image = bytearray(clinic.library.read_bytes())
    image[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64
    clinic.library.write_bytes(image)
    assert not_loaded("LIBRARY_WRONG_ARCH") == losses(clinic.examine())


def test_another_library_under_our_name(clinic, tmp_path):
    compiled(tmp_path, "plain.so", "int x;\n", ["-shared", "-fPIC"])
    shutil.copy(tmp_path / "plain.so", clinic.library)
    assert "LIBRARY_NOT_AUDIT" in losses(clinic.examine())


def test_library_on_a_noexec_file_system(clinic):
    image = clinic.library.read_bytes()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "none", clinic.library.parent], check=True)
    try:
        clinic.library.write_bytes(image)
        assert not_loaded("LIBRARY_NOEXEC") == losses(clinic.examine())
    finally:
        subprocess.run(["umount", clinic.library.parent], check=True)


def test_ld_audit_with_other_tools_only(clinic, tmp_path):
    other = compiled(tmp_path, "other.so", "unsigned la_version(unsigned v) { return v; }\n", ["-shared", "-fPIC", "-nostdlib"])
    clinic.environment["LD_AUDIT"] = str(other)
    assert not_loaded("AUDIT_WITHOUT_US") == losses(clinic.examine())


def test_another_audit_tool_beside_ours_is_a_warning(clinic, tmp_path):
    other = compiled(tmp_path, "other.so", "unsigned la_version(unsigned v) { return v; }\n", ["-shared", "-fPIC", "-nostdlib"])
    clinic.environment["LD_AUDIT"] += f":{other}"
    report = clinic.examine()
    assert report["enforced"] and codes(report) == {"AUDIT_OTHER"}


# --- the program -----------------------------------------------------------------------------------------------------

def test_static_program(clinic, tmp_path):
    assert "PROGRAM_STATIC" in losses(clinic.examine(compiled(tmp_path, "static", flags=["-static"])))


def test_static_pie_program(clinic, tmp_path):
    assert "PROGRAM_STATIC" in losses(clinic.examine(compiled(tmp_path, "staticpie", flags=["-static-pie"])))


def test_musl_program(clinic, tmp_path):
    need("musl-gcc", "musl-tools")
    assert "PROGRAM_MUSL" in losses(clinic.examine(compiled(tmp_path, "musl", compiler="musl-gcc")))


def test_set_user_id_program(clinic, tmp_path):
    program = compiled(tmp_path, "setuid")
    program.chmod(0o4755)
    open_for_others(tmp_path)
    clinic.environment["XDG_RUNTIME_DIR"] = None
    assert "PROGRAM_SECURE" in losses(clinic.examine(program, user=65534, group=65534))
    assert "PROGRAM_SECURE" not in losses(clinic.examine(program))  # root gains nothing by it


def test_program_with_file_capabilities(clinic, tmp_path):
    program = compiled(tmp_path, "caps")
    subprocess.run([need("setcap", "libcap2-bin"), "cap_net_bind_service=ep", program], check=True)
    open_for_others(tmp_path)
    clinic.environment["XDG_RUNTIME_DIR"] = None
    assert "PROGRAM_SECURE" in losses(clinic.examine(program, user=65534, group=65534))


def test_program_for_another_processor(clinic, tmp_path):
    program = compiled(tmp_path, "foreign")
    image = bytearray(program.read_bytes())
    image[18:20] = (183).to_bytes(2, "little")
    program.write_bytes(image)
    assert "PROGRAM_WRONG_ARCH" in losses(clinic.examine(program))


def test_32_bit_program(clinic, tmp_path):
    program = compiled(tmp_path, "small")
    image = bytearray(program.read_bytes())
    image[4] = 1  # ELFCLASS32
    program.write_bytes(image)
    assert "PROGRAM_WRONG_ARCH" in losses(clinic.examine(program))


def test_program_of_another_loader(clinic, tmp_path):
    program = compiled(tmp_path, "odd", flags=["-Wl,--dynamic-linker=/lib/my-loader.so"])
    assert "PROGRAM_OTHER_LOADER" in losses(clinic.examine(program))


def test_no_such_program(clinic):
    assert losses(clinic.examine("no-such-program")) == {"PROGRAM_MISSING"}


def test_a_file_that_is_no_program(clinic, tmp_path):
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "text").chmod(0o755)
    assert "PROGRAM_NO_ELF" in losses(clinic.examine(tmp_path / "text"))


def test_a_script_is_followed_to_its_interpreter(clinic, tmp_path):
    static = compiled(tmp_path, "interpreter", flags=["-static"])
    script = tmp_path / "script"
    script.write_text(f"#!{static} -x\n")
    script.chmod(0o755)
    assert "PROGRAM_STATIC" in losses(clinic.examine(script))


def test_a_needed_library_missing(clinic, tmp_path):
    compiled(tmp_path, "libgone.so", "int gone;\n", ["-shared", "-fPIC"])
    program = compiled(tmp_path, "needy", "extern int gone; int main(void) { return gone; }\n", [f"-L{tmp_path}", "-l:libgone.so"])
    (tmp_path / "libgone.so").unlink()
    found = losses(clinic.examine(program))
    assert {"PROGRAM_INCOMPLETE", "PROGRAM_FAILED_TO_START"} <= found


def with_fake_libc(tmp_path, version):
    """A program whose loader, a static program, lists a libc.so.6 of that version."""
    libc = tmp_path / "libc.so.6"
    libc.write_bytes(b"\0" * 64 + f"GNU C Library (Test) stable release version {version}.\n".encode() + b"\0" * 64)
    text = f'#include <stdio.h>\nint main(void) {{ puts("\\tlibc.so.6 => {libc} (0x00007f0000000000)"); return 0; }}\n'
    loader = compiled(tmp_path, "ld-linux-x86-64.so.2", text, flags=["-static"])
    return compiled(tmp_path, "old", flags=[f"-Wl,--dynamic-linker={loader}"])


def test_glibc_too_old(clinic, tmp_path):
    assert "GLIBC_TOO_OLD" in losses(clinic.examine(with_fake_libc(tmp_path, "2.28")))


def test_glibc_that_needs_bind_now_is_a_warning_unless_it_is_set(clinic, tmp_path):
    program = with_fake_libc(tmp_path, "2.31")
    assert "GLIBC_SLOW" in codes(clinic.examine(program), "warning")
    clinic.environment["LD_BIND_NOW"] = "1"
    assert not {"GLIBC_SLOW", "GLIBC_TOO_OLD"} & codes(clinic.examine(program))


def test_glibc_new_enough(clinic, tmp_path):
    assert not {"GLIBC_SLOW", "GLIBC_TOO_OLD"} & codes(clinic.examine(with_fake_libc(tmp_path, "2.35")))


@pytest.mark.parametrize("size, fits", [(256, True), (1500, True), (2048, False), (6000, False)])
def test_static_tls_is_foretold_as_the_loader_decides(clinic, tmp_path, size, fits):
    """Foretold by doctor, decided by ld.so: the two must agree, without the tunable and with it."""
    text = f"__thread char block[{size}]; char *tls(void) {{ return block; }}\n"
    library = compiled(tmp_path, "libtls.so", text, ["-shared", "-fPIC", "-ftls-model=initial-exec"])
    program = compiled(tmp_path, "tls", "char *tls(void); int main(void) { return !tls(); }\n", [str(library), f"-Wl,-rpath,{tmp_path}"])
    really = subprocess.run([program], env=clinic.tool.environment | {"LD_AUDIT": str(clinic.library)}, capture_output=True).returncode == 0
    assert really == fits, "glibc keeps another amount than was measured"
    assert ("STATIC_TLS" in losses(clinic.examine(program))) == (not fits)
    clinic.environment["GLIBC_TUNABLES"] = "glibc.rtld.optional_static_tls=8192"
    assert "STATIC_TLS" not in losses(clinic.examine(program))


# --- the container and the machine -----------------------------------------------------------------------------------

def test_no_kfd(clinic):
    (clinic.root / "dev/kfd").unlink()
    assert codes(clinic.examine(), "warning") == {"KFD_MISSING"}


def test_kfd_that_this_user_may_not_open(clinic):
    (clinic.root / "dev/kfd").chmod(0o600)
    open_for_others(clinic.tmp)
    open_for_others(clinic.root)
    clinic.environment["XDG_RUNTIME_DIR"] = None
    assert "KFD_DENIED" in codes(clinic.examine(user=65534, group=65534), "warning")


@pytest.mark.parametrize("kernel, disagrees", [(GIB, False), (GIB // 2, True), (2 * GIB, True), ("max", False)])
def test_dmem_limit_present_and_disagreeing(clinic, kernel, disagrees):
    (clinic.root / "proc/self/cgroup").write_text("0::/pod/container\n")
    group = clinic.root / "sys/fs/cgroup/pod/container"
    group.mkdir(parents=True)
    (group / "dmem.max").write_text("drm/0000:03:00.0/vram max\ndrm/0000:03:00.0/gtt 1\n")
    (group.parent / "dmem.max").write_text(f"drm/0000:03:00.0/vram {kernel}\n")
    assert (codes(clinic.examine(), "warning") == {"DMEM_DISAGREES"}) == disagrees


def test_region_path_unusable_is_a_warning_and_the_slot_says_that_it_moved(clinic, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    clinic.environment["HIP_DEVICE_MEMORY_SHARED_CACHE"] = str(link)
    report = clinic.examine()
    assert codes(report, "warning") == {"REGION_PATH_UNUSABLE"} and "REGION_MOVED" in codes(report, "note")
    assert report["enforced"]


def test_region_private(clinic):
    """A read-only /tmp and /dev/shm, and a path that cannot be."""
    clinic.environment["HIP_DEVICE_MEMORY_SHARED_CACHE"] = "/proc/nowhere"
    script = 'mount -t tmpfs -o ro none /dev/shm && mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp && exec "$@"'
    command = [clinic.tool.path, "doctor", "--json", "--sysroot", clinic.root]
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", *command], capture_output=True, text=True,
                          env=clinic.tool.environment | clinic.environment)
    report = json.loads(done.stdout)
    assert "REGION_PRIVATE" in losses(report) and done.returncode == 1
    assert report["processes"][0]["state"] == "private"


# --- read back -------------------------------------------------------------------------------------------------------

def test_no_hip_runtime(clinic):
    clinic.environment["LD_LIBRARY_PATH"] = None
    assert losses(clinic.examine()) == {"HIP_MISSING"}


def test_a_program_that_uses_no_gpu(clinic, tmp_path):
    assert losses(clinic.examine("/bin/true")) == {"RUNTIME_NOT_LOADED"}


def test_a_program_that_loads_hip_and_allocates_nothing(clinic):
    assert losses(clinic.examine(allocating_program(), "0")) == {"SLOT_MISSING"}


def test_a_program_that_empties_its_environment_keeps_or_loses_the_library_and_doctor_sees_which(clinic):
    report = clinic.examine("env", "-i", f"LD_LIBRARY_PATH={build_runtime()}", allocating_program(), "64M")
    program = [p for p in report["processes"] if p["command"] == "allocate"][0]
    assert ("LIBRARY_NOT_LOADED" in losses(report)) == (not program["library_loaded"])


def test_no_device(clinic):
    clinic.environment["HIP_VISIBLE_DEVICES"] = ""
    clinic.environment["ROCR_VISIBLE_DEVICES"] = ""
    assert "NO_DEVICE" in losses(clinic.examine())


def test_a_total_above_the_limit(clinic, tmp_path):
    """A HIP that is not found by its exports, so that nothing is bound: what it reports is the whole card."""
    clinic.environment["LD_AUDIT"] = str(clinic.library)
    os.truncate(clinic.library, 0)
    found = losses(clinic.examine())
    assert "TOTAL_WRONG" in found


HSA = r"""
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { uint64_t handle; } agent;
int hsa_init(void) { return 0; }
int hsa_shut_down(void) { return 0; }
int hsa_iterate_agents(int (*f)(agent, void *), void *data) { return f((agent){1}, data); }
int hsa_agent_get_info(agent a, int what, void *out)
{
	*(uint32_t *)out = what == 17 ? 1 : what == 0xA002 ? 104 : 0;
	return 0;
}
int hsa_queue_create(agent a, uint32_t size, uint32_t type, void *cb, void *data, uint32_t p, uint32_t g, void **queue)
{
	*queue = calloc(1, 256);
	return 0;
}
int hsa_amd_queue_set_priority(void *queue, int priority) { return 0; }
int hsa_amd_queue_cu_get_mask(const void *queue, uint32_t bits, uint32_t *mask)
{
	memset(mask, 0, bits / 8);
	mask[0] = strtoul(getenv("FAKE_MASK"), NULL, 16);
	return 0;
}
int hsa_amd_queue_cu_set_mask(const void *queue, uint32_t bits, const uint32_t *mask) { return 0; }
int hsa_queue_destroy(void *queue) { free(queue); return 0; }
"""


@pytest.mark.slow
@pytest.mark.parametrize("release", ["5.2", "5.7", "6.4", "7.2"])
def test_the_probe_learns_from_an_unmodified_rocr_what_a_queue_really_got_where_it_tells(clinic, release):
    """Over the emulated driver: the mask of the first card, all of the second, and the limit as the first one's total."""
    build_emulated_driver()
    settings = {"HIP_DEVICE_MEMORY_LIMIT_0": "1G", "HSA_CU_MASK": "0:0-15,96-99",
                "HIP_DEVICE_MEMORY_SHARED_CACHE": clinic.environment["HIP_DEVICE_MEMORY_SHARED_CACHE"]}
    done = subprocess.run([ROOT / "softgpu/kfd/run", "--rocm", release, "--gpus", "2", "--vram-mb", "4096", "--audit", clinic.library,
                           "--", clinic.tool.path, "doctor", "--probe", "1"], capture_output=True, text=True, timeout=120,
                          env=clinic.tool.environment | settings)
    said = done.stdout.splitlines()
    assert done.returncode == 0 and {"hip yes", "devices 2"} <= set(said), done.stderr
    assert f"total 0 {GIB}" in said and f"total 1 {4 * GIB}" in said
    masks = [line for line in said if line.startswith("mask")]
    # 7.2.4 sets the mask, as the driver's log shows, but forgets it and aborts when asked.
    assert masks == ([] if release == "7.2" else ["mask 0 104 ffff 0 0 f", "mask 1 104 ffffffff ffffffff ffffffff ff"])


@pytest.mark.parametrize("given, expected", [("ffff", set()), ("ffffffff", {"MASK_NOT_IN_FORCE"}), ("ff", {"MASK_NOT_IN_FORCE"})])
def test_the_mask_is_read_back_from_a_queue(clinic, tmp_path, given, expected):
    folder = tmp_path / "hsa"
    folder.mkdir()
    compiled(folder, "libhsa-runtime64.so.1", HSA, ["-shared", "-fPIC", "-w", "-Wl,-soname,libhsa-runtime64.so.1"])
    clinic.environment |= {"LD_LIBRARY_PATH": str(folder), "HSA_CU_MASK": "0:0-15", "FAKE_MASK": given}
    assert {c for c in codes(clinic.examine()) if c.startswith("MASK")} == expected


def test_a_mask_that_cannot_be_read_back_is_a_warning(clinic):
    clinic.environment |= {"LD_LIBRARY_PATH": None, "HSA_CU_MASK": "0:0-15"}
    assert "MASK_UNREADABLE" in codes(clinic.examine(), "warning")


def test_fewer_symbols_bound_than_wanted_is_a_loss_that_counts_them(clinic, tmp_path):
    """An actor under a runtime's name plays a program of which one symbol could not be bound."""
    actor = build_actor()
    fake = compiled(tmp_path, "libamdhip64.so.9", "int hip;\n", ["-shared", "-fPIC"])
    region = clinic.environment["HIP_DEVICE_MEMORY_SHARED_CACHE"]
    report = clinic.examine("env", f"LD_PRELOAD={fake}", actor, region, f"limit=0:{GIB}", "requested=0:4096", "symbols=26:27",
                            stdin=subprocess.DEVNULL)
    partial = [f for f in report["findings"] if f["code"] == "SYMBOLS_PARTIAL"]
    assert partial and partial[0]["level"] == "loss" and partial[0]["detail"].endswith("bound 26 of 27")
    assert not report["enforced"]


# --- the table -------------------------------------------------------------------------------------------------------

def test_every_code_of_the_table_has_a_test_here():
    table = set(re.findall(r"^FINDING\((\w+),", (ROOT / "tools/amvgpu/doctor.def").read_text(), re.M))
    here = pathlib.Path(__file__)
    texts = here.read_text() + here.with_name("test_children_holes.py").read_text()
    tested = set(re.findall(r'"([A-Z]+(?:_[A-Z0-9]+)+)"', texts))
    assert len(table) > 35 and table - tested == set()

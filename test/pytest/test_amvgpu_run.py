"""amvgpu run: the program finds what a container would have given it, and its exit status comes back."""
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
from tool import Tool  # noqa: E402

TUNABLE = "glibc.rtld.optional_static_tls"


@pytest.fixture
def tool(tmp_path):
    return Tool(tmp_path / "runtime")


@pytest.fixture
def library(tmp_path):
    """A shared object that does nothing, under the right name."""
    source = tmp_path / "audit.c"
    source.write_text("unsigned la_version(unsigned v) { return v; }\n")
    path = tmp_path / "libamvgpu.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-nostdlib", "-o", path, source], check=True)
    return path


@pytest.fixture
def run(tool, library, tmp_path):
    (tmp_path / "runtime").mkdir()

    def run(*options, command=("env",), environment=None):
        return tool("run", "--library", library, *options, "--", *command, environment=environment)
    return run


def environment_of(done):
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_every_setting_of_a_container_is_set(run, library, tmp_path):
    seen = environment_of(run("--memory", "4G,1:8G", "--priority", "high", "--cus", "0:0-15", "--oversubscribe"))
    assert seen["LD_AUDIT"] == str(library)
    assert (seen["HIP_DEVICE_MEMORY_LIMIT"], seen["HIP_DEVICE_MEMORY_LIMIT_1"]) == ("4G", "8G")
    assert (seen["HSA_CU_MASK"], seen["AMD_TASK_PRIORITY"], seen["HIP_OVERSUBSCRIBE"]) == ("0:0-15", "0", "true")
    assert seen["GLIBC_TUNABLES"] == f"{TUNABLE}=8192"
    region = pathlib.Path(seen["HIP_DEVICE_MEMORY_SHARED_CACHE"])
    assert region.parent == tmp_path / "runtime" / "amvgpu" and region.parent.stat().st_mode & 0o777 == 0o700


def test_what_is_not_asked_for_is_not_set(run):
    seen = environment_of(run())
    assert not {"HIP_DEVICE_MEMORY_LIMIT", "HSA_CU_MASK", "AMD_TASK_PRIORITY", "HIP_OVERSUBSCRIBE"} & seen.keys()


def test_low_priority_is_1(run):
    assert environment_of(run("--priority", "low"))["AMD_TASK_PRIORITY"] == "1"


def test_memory_replaces_every_inherited_limit(run):
    seen = environment_of(run("--memory", "2:1G", environment={"HIP_DEVICE_MEMORY_LIMIT": "9G", "HIP_DEVICE_MEMORY_LIMIT_0": "9G"}))
    assert {k: v for k, v in seen.items() if "MEMORY_LIMIT" in k} == {"HIP_DEVICE_MEMORY_LIMIT_2": "1G"}


@pytest.mark.parametrize("before, after", [
    ("glibc.malloc.check=1", f"glibc.malloc.check=1:{TUNABLE}=8192"),
    (f"{TUNABLE}=512:glibc.malloc.check=1", f"glibc.malloc.check=1:{TUNABLE}=8192"),
    (f"{TUNABLE}=0x4000", f"{TUNABLE}=0x4000"),
])
def test_the_tunable_is_merged_and_a_larger_one_stays(run, before, after):
    assert environment_of(run(environment={"GLIBC_TUNABLES": before}))["GLIBC_TUNABLES"] == after


def test_another_audit_library_stays_behind_ours_and_ours_is_named_once(tool, library, tmp_path):
    (tmp_path / "runtime").mkdir()
    done = tool("run", "--library", library, "--", tool.path, "run", "--library", library, "--", "env", environment={"LD_AUDIT": ""})
    assert environment_of(done)["LD_AUDIT"] == str(library)
    other = tmp_path / "other.so"
    other.write_bytes(library.read_bytes())
    assert environment_of(tool("run", "--library", library, "env", environment={"LD_AUDIT": other}))["LD_AUDIT"] == f"{library}:{other}"


def test_bind_now_is_set_only_where_glibc_is_older_than_2_35(run):
    version = tuple(map(int, subprocess.run(["getconf", "GNU_LIBC_VERSION"], capture_output=True, text=True).stdout.split()[1].split(".")))
    assert ("LD_BIND_NOW" in environment_of(run())) == (version < (2, 35))


@pytest.mark.parametrize("status", [0, 1, 7, 255])
def test_the_exit_status_is_the_programs(run, status):
    assert run(command=("sh", "-c", f"exit {status}")).returncode == status


def test_a_signal_that_kills_the_program_is_seen_by_the_caller(run):
    assert run(command=("sh", "-c", "kill -TERM $$")).returncode == -signal.SIGTERM


def test_the_program_keeps_the_pid_its_arguments_and_its_standard_streams(tool, library, tmp_path):
    (tmp_path / "runtime").mkdir()
    process = subprocess.Popen([tool.path, "run", "--library", library, "--memory", "1G", "sh", "-c", 'echo $$ "$@"; cat', "sh",
                                "--memory", "x y"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=tool.environment)
    out, _ = process.communicate("through\n", timeout=20)
    assert out == f"{process.pid} --memory x y\nthrough\n"


def test_two_runs_have_two_regions_and_two_of_one_name_share_one(run):
    def region(*options):
        return environment_of(run(*options))["HIP_DEVICE_MEMORY_SHARED_CACHE"]
    assert region() != region()
    assert region("--name", "training") == region("--name", "training")
    assert region("--name", "training") != region("--name", "serving")


def test_without_a_runtime_folder_the_region_is_in_a_folder_that_only_this_user_can_enter(run):
    region = pathlib.Path(environment_of(run(environment={"XDG_RUNTIME_DIR": "/nonexistent"}))["HIP_DEVICE_MEMORY_SHARED_CACHE"])
    assert region.parent.parent in (pathlib.Path("/dev/shm"), pathlib.Path("/tmp"))
    assert region.parent.stat().st_mode & 0o777 == 0o700


def test_a_planted_link_is_not_taken_for_the_region_folder(run, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / "runtime" / "amvgpu").symlink_to(elsewhere)
    region = environment_of(run())["HIP_DEVICE_MEMORY_SHARED_CACHE"]
    assert not region.startswith(str(tmp_path))


@pytest.mark.parametrize("options", [
    ["--memory", "1.5G"], ["--memory", "4GB"], ["--memory", "4Gi"], ["--memory", "-1"], ["--memory", ""], ["--memory", "4G,4G"],
    ["--memory", "64:1G"], ["--memory", "x:1G"], ["--memory", "99999999999999999999"], ["--priority", "medium"], ["--cus", "0"],
    ["--cus", "0:3-1"], ["--cus", "0:0;0:1"], ["--cus", "0:0-1024"], ["--cus", "0:0-15;"], ["--name", "a/b"], ["--name", ".hidden"],
])
def test_a_setting_that_makes_no_sense_is_refused_before_anything_starts(run, options):
    done = run(*options, command=("echo", "started"))
    assert done.returncode == 125 and done.stdout == ""
    assert done.stderr.startswith("amvgpu run: ")


def test_a_missing_program_is_127_and_one_that_cannot_be_executed_126(run, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("")
    assert run(command=("no-such-program",)).returncode == 127
    assert run(command=(plain,)).returncode == 126


def test_without_a_library_it_says_how_to_get_one(tool, tmp_path):
    done = tool("run", "--library", tmp_path / "missing.so", "--", "echo", "started")
    assert done.returncode == 125 and done.stdout == "" and "--library" in done.stderr


@pytest.mark.parametrize("place", ["lib", "vgpu"])
def test_an_installed_tool_finds_the_library_relative_to_itself(tool, library, tmp_path, place):
    (tmp_path / "runtime").mkdir()
    for folder in ("bin", place):
        (tmp_path / "prefix" / folder).mkdir(parents=True)
    installed = tmp_path / "prefix" / "bin" / "amvgpu"
    installed.write_bytes(tool.path.read_bytes())
    installed.chmod(0o755)
    there = tmp_path / "prefix" / place / "libamvgpu.so"
    there.write_bytes(library.read_bytes())
    done = subprocess.run([installed, "run", "env"], capture_output=True, text=True, env=tool.environment)
    assert environment_of(done)["LD_AUDIT"] == str(there)


def test_a_static_program_starts_with_a_warning(run, tmp_path):
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 3; }\n")
    subprocess.run(["gcc", "-static", "-o", tmp_path / "static", source], check=True)
    done = run(command=(tmp_path / "static",))
    assert done.returncode == 3
    assert "statically linked" in done.stderr and "doctor" in done.stderr

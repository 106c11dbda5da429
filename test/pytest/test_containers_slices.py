"""Slices in real containers: what a pod gets of the device plugin is enforced in it, and only in it."""
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
from bundle import LIBRARY, Container  # noqa: E402
from tool import GIB, Tool, build_library  # noqa: E402

LIMIT = {"HIP_DEVICE_MEMORY_LIMIT_0": "4096m"}
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("containers")]


def outcome(done):
    assert done.stdout.strip() in ("granted", "refused"), (done.returncode, done.stdout, done.stderr)
    return done.stdout.strip()


def status(container, *arguments, **options):
    done = container.exec("amvgpu", "status", "--json", *arguments, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["regions"]


# --- the environment of PID 1 ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("size, expected", [("4096m", "granted"), ("4097m", "refused")])
def test_pid_1_itself_gets_the_limit_to_the_byte_and_not_more(tmp_path, size, expected):
    assert outcome(Container(tmp_path, limits=LIMIT).run("allocate", size)) == expected


def test_without_a_limit_the_library_changes_nothing_and_makes_no_file(tmp_path):
    (tmp_path / "shared").mkdir()
    done = Container(tmp_path, tmp=tmp_path / "shared").run("allocate", "16G")
    assert outcome(done) == "granted" and done.stderr == ""
    assert list((tmp_path / "shared").iterdir()) == []


def test_the_library_is_mounted_read_only(tmp_path):
    done = Container(tmp_path, limits=LIMIT).run("sh", "-c", f": > {LIBRARY}")
    assert done.returncode != 0 and "Read-only file system" in done.stderr


def test_the_limit_is_of_the_whole_container(tmp_path):
    with Container(tmp_path, limits=LIMIT) as pod, pod.background("allocate", "3G", "forever"):
        assert outcome(pod.exec("allocate", "1G")) == "granted"
        assert outcome(pod.exec("allocate", "1025m")) == "refused"


def test_a_killed_program_gives_its_share_back(tmp_path):
    with Container(tmp_path, limits=LIMIT) as pod:
        with pod.background("allocate", "3G", "forever"):
            assert outcome(pod.exec("allocate", "4G")) == "refused"
            pod.exec("sh", "-c", 'for p in /proc/[0-9]*; do read -r c < $p/comm; [ "$c" = allocate ] && kill -9 ${p#/proc/}; done; true')
        assert outcome(pod.exec("allocate", "4G")) == "granted"


# --- exec into a running container ------------------------------------------------------------------------------------

def test_an_exec_with_the_variables_shares_the_limit(tmp_path):
    with Container(tmp_path, limits=LIMIT) as pod:
        assert outcome(pod.exec("allocate", "5G")) == "refused"


def test_an_exec_that_lost_the_limits_gets_the_pods_back(tmp_path):
    with Container(tmp_path, limits=LIMIT) as pod:
        assert outcome(pod.exec("allocate", "5G", environment={"HIP_DEVICE_MEMORY_LIMIT_0": None})) == "refused"


def test_an_exec_that_sets_a_larger_limit_does_not_get_it(tmp_path):
    with Container(tmp_path, limits=LIMIT) as pod:
        assert outcome(pod.exec("allocate", "5G", environment={"HIP_DEVICE_MEMORY_LIMIT_0": "16G"})) == "refused"


def test_an_exec_without_ld_audit_is_not_limited_a_known_hole_that_doctor_names(tmp_path):
    """The loader starts such a program without us: nothing of ours runs. See README, known holes."""
    with Container(tmp_path, limits=LIMIT) as pod:
        lost = {"LD_AUDIT": None}
        assert outcome(pod.exec("/opt/test/allocate", "5G", environment=lost)) == "granted"
        done = pod.exec("/opt/test/amvgpu", "doctor", "--json", environment=lost)
        assert done.returncode == 1
        assert "AUDIT_EMPTIED" in {f["code"] for f in json.loads(done.stdout)["findings"]}


# --- users and roots --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("readonly_root", [True, False])
@pytest.mark.parametrize("user", [0, 65534, 1000])
def test_any_user_on_any_root_is_limited_together_with_its_pod(tmp_path, user, readonly_root):
    with Container(tmp_path, limits=LIMIT, user=user, readonly_root=readonly_root) as pod, pod.background("allocate", "3G", "forever"):
        assert outcome(pod.exec("allocate", "2G")) == "refused"
        assert outcome(pod.exec("allocate", "1G")) == "granted"


def test_two_users_of_one_container_share_the_limit(tmp_path):
    with Container(tmp_path, limits=LIMIT) as pod, pod.background("allocate", "3G", "forever", user=1000):
        assert outcome(pod.exec("allocate", "2G", user=2000)) == "refused"
        assert outcome(pod.exec("allocate", "1G", user=0)) == "granted"


def test_a_read_only_root_without_tmp_falls_back_to_dev_shm_and_says_so(tmp_path):
    with Container(tmp_path, limits=LIMIT, tmp="none") as pod, pod.background("allocate", "3G", "forever"):
        assert outcome(pod.exec("allocate", "2G")) == "refused"
        region, = status(pod)
        assert region["region"] == "/dev/shm/hipdevshr.cache"
        assert "REGION_MOVED" in [r["code"] for r in region["processes"][0]["reasons"]]


def test_with_no_place_for_a_region_each_process_is_limited_on_its_own_and_status_says_private(tmp_path):
    with Container(tmp_path, limits=LIMIT, tmp="none") as pod:
        # From the host: nobody in the container has the right to.
        quiet = subprocess.run(["nsenter", "-t", str(pod.pid), "-m", "mount", "-o", "remount,ro", "/dev/shm"], capture_output=True, text=True)
        assert quiet.returncode == 0, quiet.stderr
        with pod.background("allocate", "3G", "forever"):
            assert outcome(pod.exec("allocate", "5G")) == "refused"
            assert outcome(pod.exec("allocate", "3G")) == "granted"
            done = Tool(tmp_path)("status", "--json", "--pid", allocating_pid(pod))
            region, = json.loads(done.stdout)["regions"]
            assert region["state"] == "private"
            assert "REGION_PRIVATE" in [r["code"] for r in region["processes"][0]["reasons"]]


def allocating_pid(pod):
    """Of the program in the container, as the host counts."""
    namespace = os.readlink(f"/proc/{pod.pid}/ns/pid")
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "ns/pid") == namespace and (entry / "comm").read_text() == "allocate\n":
                return entry.name
        except OSError:
            continue
    raise AssertionError("no such process")


# --- two containers on one card ---------------------------------------------------------------------------------------

def test_two_containers_with_limits_of_their_own_do_not_count_each_others_bytes(tmp_path):
    with Container(tmp_path, limits={"HIP_DEVICE_MEMORY_LIMIT_0": "4G"}) as one, \
            Container(tmp_path, limits={"HIP_DEVICE_MEMORY_LIMIT_0": "6G"}) as two:
        with one.background("allocate", "4G", "forever"), two.background("allocate", "6G", "forever"):
            assert outcome(one.exec("allocate", "1M")) == "refused"
            assert outcome(two.exec("allocate", "1M")) == "refused"
        region_one, region_two = status(one)[0], status(two)[0]
        assert region_one["devices"][0]["limit_bytes"] == 4 * GIB and region_two["devices"][0]["limit_bytes"] == 6 * GIB


def test_two_containers_on_a_shared_tmp_hold_one_limit_together_across_pid_namespaces(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with Container(tmp_path, limits=LIMIT, tmp=shared) as one, Container(tmp_path, limits=LIMIT, tmp=shared) as two:
        with one.background("allocate", "3G", "forever"):
            assert outcome(two.exec("allocate", "2G")) == "refused"
            assert outcome(two.exec("allocate", "1G")) == "granted"
            seen = status(two)[0]["processes"]
            assert [p["foreign_pid_namespace"] for p in seen if p["command"] == "allocate"] == [True]
        deadline = time.monotonic() + 10
        one.exec("sh", "-c", "kill -9 -1")
        while outcome(two.exec("allocate", "4G")) != "granted":
            assert time.monotonic() < deadline, "the bytes of the dead of another container never came back"


# --- restart and upgrade ----------------------------------------------------------------------------------------------

def test_after_a_restart_on_the_same_tmp_nothing_is_left_of_the_old_container_and_the_new_limit_holds(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with Container(tmp_path, limits=LIMIT, tmp=shared) as pod, pod.background("allocate", "4G", "forever"):
        assert outcome(pod.exec("allocate", "1M")) == "refused"
    with Container(tmp_path, limits={"HIP_DEVICE_MEMORY_LIMIT_0": "6G"}, tmp=shared) as pod:
        assert outcome(pod.exec("allocate", "6G")) == "granted"
        assert outcome(pod.exec("allocate", "6145m")) == "refused"


def test_replacing_the_library_by_rename_leaves_a_running_program_alone_and_serves_the_next_container(tmp_path):
    vgpu = tmp_path / "vgpu"
    vgpu.mkdir()
    library = vgpu / "libamvgpu.so"
    library.write_bytes(build_library().read_bytes())
    library.chmod(0o555)
    with Container(tmp_path, limits=LIMIT, library=library) as pod, pod.background("allocate", "3G", "forever") as running:
        new = vgpu / "libamvgpu.so.new"
        new.write_bytes(build_library().read_bytes())
        new.chmod(0o555)
        os.rename(new, library)
        assert outcome(pod.exec("allocate", "2G")) == "refused"
        assert running.poll() is None
        assert outcome(Container(tmp_path, limits=LIMIT, library=library).run("allocate", "5G")) == "refused"


# --- seen from inside and from the host -------------------------------------------------------------------------------

def test_an_ordinary_user_sees_status_inside_and_root_sees_the_same_from_the_host(tmp_path):
    with Container(tmp_path, limits=LIMIT, user=1000) as pod, pod.background("allocate", "3G", "forever"):
        inside, = status(pod)
        assert inside["devices"][0]["used_bytes"] == 3 * GIB and inside["devices"][0]["limit_bytes"] == 4 * GIB
        path = f"/proc/{pod.pid}/root/tmp/hipdevshr.cache"
        tool = Tool(tmp_path)
        outside, = tool.json("status", "--json", path)["regions"]
        assert outside["devices"] == inside["devices"]
        assert [p["foreign_pid_namespace"] for p in outside["processes"]] == [True]
        assert outside["processes"][0]["command"] == "allocate"
        by_pid, = tool.json("status", "--json", "--pid", allocating_pid(pod))["regions"]
        assert by_pid["devices"] == inside["devices"]


@pytest.mark.parametrize("pods, user", [(0, 0), (1000, 1000), (1000, 0)])
def test_doctor_in_a_container_proves_that_a_program_is_limited(tmp_path, pods, user):
    with Container(tmp_path, limits=LIMIT, user=pods) as pod:
        done = pod.exec("amvgpu", "doctor", "--json", "--", "allocate", "1G", user=user)
        report = json.loads(done.stdout)
        assert (done.returncode, report["enforced"]) == (0, True), report
        foreign = {"POD_SPEC_UNREADABLE"} if user != pods else set()
        assert {f["code"] for f in report["findings"]} == {"KFD_MISSING"} | foreign


def test_doctor_proves_it_where_seccomp_forbids_ptrace_too(tmp_path):
    with Container(tmp_path, limits=LIMIT, user=1000, forbidden_calls=["ptrace"]) as pod:
        done = pod.exec("amvgpu", "doctor", "--json", "--seconds", "2", "--", "allocate", "1G", "forever")
        report = json.loads(done.stdout)
        assert (done.returncode, report["enforced"]) == (0, True), report
        assert [p["command"] for p in report["processes"]] == ["amvgpu", "allocate"]


def test_a_missing_mount_source_becomes_a_folder_and_doctor_says_so(tmp_path):
    """What a container engine does where the node has no library."""
    folder = tmp_path / "made-by-the-engine"
    folder.mkdir()
    with Container(tmp_path, limits=LIMIT, library=folder, library_at="/usr/local/missing/libamvgpu.so") as pod:
        report = json.loads(pod.exec("amvgpu", "doctor", "--json").stdout)
        assert "LIBRARY_IS_FOLDER" in {f["code"] for f in report["findings"]}


def test_env_names_the_pod_as_the_source(tmp_path):
    with Container(tmp_path, limits={**LIMIT, "HSA_CU_MASK": "0:0-15"}) as pod:
        done = pod.exec("amvgpu", "env", "--json", environment={"HSA_CU_MASK": "0:0-63"})
        seen = {s["name"]: s for s in json.loads(done.stdout)}
        assert (seen["HSA_CU_MASK"]["value"], seen["HSA_CU_MASK"]["source"]) == ("0:0-15", "pod")
        assert seen["HIP_DEVICE_MEMORY_LIMIT_0"]["source"] == "pod"

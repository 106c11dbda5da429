"""amvgpu env: every setting with the value that holds and where it comes from, also inside of a pod."""
import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
from tool import Tool  # noqa: E402


@pytest.fixture
def tool(tmp_path):
    return Tool(tmp_path / "runtime")


def settings(tool, own, pod=None):
    """As a process with the environment own sees them, below a PID 1 with the environment pod."""
    command = [tool.path, "env", "--json"]
    environment = tool.environment | own
    if pod is not None:
        changes = [f"{k}={v}" for k, v in own.items()]
        script = 'env "$@"; exit $?'
        lost = [flag for name in pod if name not in own for flag in ("-u", name)]
        command = ["unshare", "--pid", "--mount-proc", "--fork", "sh", "-c", script, "sh", *lost, *changes, *command]
        environment = tool.environment | pod
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return {s["name"]: s for s in json.loads(done.stdout)}


def test_a_setting_of_this_process_is_shown_with_its_source(tool):
    seen = settings(tool, {"AMD_TASK_PRIORITY": "1", "HIP_DEVICE_MEMORY_LIMIT_0": "4G"})
    assert (seen["AMD_TASK_PRIORITY"]["value"], seen["AMD_TASK_PRIORITY"]["source"], seen["AMD_TASK_PRIORITY"]["note"]) == ("1", "process", "low")
    assert (seen["HIP_DEVICE_MEMORY_LIMIT_0"]["source"], seen["HIP_DEVICE_MEMORY_LIMIT_0"]["note"]) == ("process", "4.0 GiB")
    assert (seen["HSA_CU_MASK"]["value"], seen["HSA_CU_MASK"]["source"]) == (None, "unset")
    assert (seen["HIP_DEVICE_MEMORY_SHARED_CACHE"]["value"], seen["HIP_DEVICE_MEMORY_SHARED_CACHE"]["source"]) == ("/tmp/hipdevshr.cache", "default")


def test_a_pinned_setting_of_the_pod_wins_and_it_is_said_that_the_own_one_is_ignored(tool):
    seen = settings(tool, {"HSA_CU_MASK": "0:0-63"}, pod={"HSA_CU_MASK": "0:0-15"})["HSA_CU_MASK"]
    assert (seen["value"], seen["source"]) == ("0:0-15", "pod")
    assert seen["note"] == "pinned, this process's own is ignored"


def test_a_restored_setting_comes_back_only_where_it_was_lost(tool):
    assert settings(tool, {}, pod={"HIP_VISIBLE_DEVICES": "0,1"})["HIP_VISIBLE_DEVICES"]["source"] == "pod"
    seen = settings(tool, {"HIP_VISIBLE_DEVICES": "1"}, pod={"HIP_VISIBLE_DEVICES": "0,1"})["HIP_VISIBLE_DEVICES"]
    assert (seen["value"], seen["source"]) == ("1", "process")


def test_a_limit_of_the_pod_that_this_process_lowers_shows_both(tool):
    seen = settings(tool, {"HIP_DEVICE_MEMORY_LIMIT_0": "1G"}, pod={"HIP_DEVICE_MEMORY_LIMIT_0": "4G"})["HIP_DEVICE_MEMORY_LIMIT_0"]
    assert (seen["value"], seen["source"], seen["note"]) == ("4G", "pod", "4.0 GiB, lowered by this process to 1.0 GiB")


def test_a_lost_ld_audit_is_pointed_out(tool):
    assert settings(tool, {}, pod={"GLIBC_TUNABLES": "glibc.malloc.check=0"})["GLIBC_TUNABLES"]["note"] == "the pod has it, this process has lost it"


@pytest.mark.parametrize("value", ["1.5G", "4GiB"])
def test_an_invalid_limit_is_called_no_limit(tool, value):
    assert settings(tool, {"HIP_DEVICE_MEMORY_LIMIT": value})["HIP_DEVICE_MEMORY_LIMIT"]["note"] == "invalid: no limit"


def test_the_table_prints_one_line_for_each_setting(tool):
    done = tool("env", environment={"HSA_CU_MASK": "0:0-3\033[2J"})
    assert done.returncode == 0
    assert "\033" not in done.stdout, "an escape sequence in a variable reached the terminal"
    assert done.stdout.splitlines()[0].split() == ["SETTING", "VALUE", "SOURCE"]

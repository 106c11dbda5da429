"""amvgpu status: what it shows is what the ledger holds."""
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
from tool import GIB, MIB, ROOT, Actor, Tool  # noqa: E402

LIMIT = f"limit=0:{4 * GIB}"
BOUND = "symbols=27:27"


@pytest.fixture
def tool(tmp_path):
    return Tool(tmp_path / "runtime")


def reason_number(name):
    rows = [line for line in (ROOT / "src/multiprocess/reason.def").read_text().splitlines() if line.startswith("REASON(")]
    return [row[len("REASON("):].split(",")[0] for row in rows].index(name)


def only_region(shown):
    assert len(shown["regions"]) == 1
    return shown["regions"][0]


def test_requested_physical_overhead_and_managed_bytes_are_shown_for_each_device(tool, tmp_path):
    region = tmp_path / "r"
    steps = [LIMIT, f"limit=3:{GIB}", f"requested=0:{GIB}", f"physical=0:{GIB + 300 * MIB}", f"requested=3:{64 * MIB}",
             f"managed=3:{5 * MIB}", BOUND]
    with Actor(region, *steps):
        shown = only_region(tool.json("status", "--json", region))
    assert shown["devices"] == [
        {"index": 0, "limit_bytes": 4 * GIB, "used_bytes": GIB + 300 * MIB, "requested_bytes": GIB,
         "physical_bytes": GIB + 300 * MIB, "overhead_bytes": 300 * MIB, "managed_bytes": 0},
        {"index": 3, "limit_bytes": GIB, "used_bytes": 64 * MIB, "requested_bytes": 64 * MIB, "physical_bytes": 0,
         "overhead_bytes": 0, "managed_bytes": 5 * MIB},
    ]


def test_a_process_is_shown_with_its_command_allocations_and_state(tool, tmp_path):
    region = tmp_path / "r"
    with Actor(region, LIMIT, f"requested=0:{GIB}", "allocations=3:1", BOUND) as actor:
        process = only_region(tool.json("status", "--json", region))["processes"][0]
    assert process["pid"] == actor.pid
    assert process["command"] == "slot_actor"
    assert (process["requested_bytes"], process["allocations"], process["refusals"]) == (GIB, 3, 0)
    assert (process["state"], process["symbols_bound"], process["symbols_wanted"]) == ("enforced", 27, 27)
    assert process["last_refusal"] is None and process["reasons"] == []


def test_the_last_refusal_says_who_how_much_limit_used_and_when(tool, tmp_path):
    region = tmp_path / "r"
    before = time.time_ns()
    with Actor(region, LIMIT, f"requested=0:{3 * GIB}", f"refuse=0:{2 * GIB}", BOUND):
        process = only_region(tool.json("status", "--json", region))["processes"][0]
        text = tool("status", region).stdout
    refusal = process["last_refusal"]
    assert process["refusals"] == 1
    assert (refusal["api"], refusal["device"], refusal["book"]) == ("hipMalloc", 0, "requested")
    assert (refusal["bytes"], refusal["limit_bytes"], refusal["used_bytes"]) == (2 * GIB, 4 * GIB, 3 * GIB)
    assert before <= refusal["realtime_ns"] <= time.time_ns()
    assert "last refusal: hipMalloc of 2.0 GiB on device 0, 3.0 GiB of 4.0 GiB in use (requested)" in text


@pytest.mark.parametrize("reason, state", [
    ("SYMBOLS_PARTIAL", "partial"), ("COPIES_FULL", "partial"), ("LIMIT_INVALID", "partial"), ("SLOTS_FULL", "private"),
    ("REGION_PRIVATE", "private"), ("REGION_MOVED", "enforced"), ("POD_SPEC_UNREADABLE", "enforced"),
])
def test_a_reason_decides_the_state_and_is_shown_with_what_to_do(tool, tmp_path, reason, state):
    region = tmp_path / "r"
    with Actor(region, LIMIT, BOUND, f"reason={reason_number(reason)}:1"):
        shown = only_region(tool.json("status", "--json", region))
        text = tool("status", region).stdout
    assert shown["processes"][0]["state"] == shown["state"] == state
    assert [r["code"] for r in shown["processes"][0]["reasons"]] == [reason]
    assert all(r["what"] and r["remedy"] for r in shown["processes"][0]["reasons"])
    assert f"{reason}: " in text


def test_fewer_symbols_bound_than_wanted_is_partial_and_the_text_counts_them(tool, tmp_path):
    region = tmp_path / "r"
    with Actor(region, LIMIT, "symbols=26:27"):
        assert only_region(tool.json("status", "--json", region))["state"] == "partial"
        assert "bound 26 of 27 symbols" in tool("status", region).stdout


def test_the_bytes_of_a_killed_process_are_not_counted_and_its_slot_is_mentioned(tool, tmp_path):
    region = tmp_path / "r"
    with Actor(region, LIMIT, f"requested=0:{GIB}", BOUND), Actor(region, LIMIT, f"requested=0:{2 * GIB}", BOUND) as dying:
        assert only_region(tool.json("status", "--json", region))["devices"][0]["used_bytes"] == 3 * GIB
        dying.kill()
        shown = only_region(tool.json("status", "--json", region))
        assert shown["devices"][0]["used_bytes"] == GIB
        assert shown["dead_slots"] == 1 and len(shown["processes"]) == 1
        assert "1 slot of ended processes" in tool("status", region).stdout


def test_reap_takes_the_slot_of_a_killed_process_back_and_only_that(tool, tmp_path):
    region = tmp_path / "r"
    with Actor(region, LIMIT, f"requested=0:{GIB}", BOUND) as living, Actor(region, LIMIT, BOUND) as dying:
        dying.kill()
        assert tool("reap", region).stdout == f"{region}: 1 slot taken back\n"
        shown = only_region(tool.json("status", "--json", region))
        assert shown["dead_slots"] == 0 and [p["pid"] for p in shown["processes"]] == [living.pid]
        assert tool("reap", region).stdout == f"{region}: 0 slots taken back\n"


def test_reap_removes_the_region_of_a_run_that_is_over_and_no_other(tool, tmp_path):
    folder = tmp_path / "runtime" / "amvgpu"
    folder.mkdir(parents=True, mode=0o700)
    for name in ("over", "living", "young"):
        with Actor(folder / f"{name}.region", LIMIT, BOUND):
            pass
    with Actor(folder / "living.region", LIMIT, BOUND):
        tool("reap", *folder.glob("[a-z]*.region"))
        for name in ("over", "living"):
            os.utime(folder / f"{name}.region", (1, 1))
        done = tool("reap")
        removed = [line for line in done.stdout.splitlines() if line.startswith(str(folder)) and "removed" in line]
        assert removed == [f"{folder}/over.region: nobody lives there, removed"]
        assert sorted(p.name for p in folder.iterdir()) == [".living.region.region", ".young.region.region", "living.region", "young.region"]


def test_a_bar_is_half_full_when_half_of_the_limit_is_used(tool, tmp_path):
    region = tmp_path / "r"
    with Actor(region, LIMIT, f"requested=0:{2 * GIB}", BOUND):
        line = tool("status", region).stdout.splitlines()[3]
        ascii_line = tool("status", region, environment={"LC_ALL": "C"}).stdout.splitlines()[3]
    assert "█" * 10 + "░" * 10 in line and "50%" in line
    assert "#" * 10 + "." * 10 in ascii_line


def test_an_ordinary_user_sees_the_region_of_another(tool, tmp_path):
    region = tmp_path / "r"
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.owner() == pathlib.Path(f"/proc/{os.getpid()}").owner():
            folder.chmod(folder.stat().st_mode | 0o055)
    with Actor(region, LIMIT, f"requested=0:{GIB}", BOUND):
        done = subprocess.run([tool.path, "status", "--json", region], capture_output=True, text=True, user=65534, group=65534,
                              env=tool.environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["regions"][0]["devices"][0]["used_bytes"] == GIB


def test_watch_shows_the_change_and_writes_one_json_object_a_line(tool, tmp_path):
    region = tmp_path / "r"
    with Actor(region, LIMIT, BOUND):
        watcher = subprocess.Popen([tool.path, "status", "--json", "--watch=0.1", region], stdout=subprocess.PIPE, text=True,
                                   env=tool.environment)
        first = json.loads(watcher.stdout.readline())
        with Actor(region, LIMIT, f"requested=0:{GIB}", BOUND):
            deadline = time.monotonic() + 10
            used = 0
            while used != GIB and time.monotonic() < deadline:
                used = json.loads(watcher.stdout.readline())["regions"][0]["devices"][0]["used_bytes"]
        watcher.kill()
        watcher.wait()
        watcher.stdout.close()
    assert first["regions"][0]["devices"][0]["used_bytes"] == 0 and used == GIB


def test_a_region_is_found_by_the_pid_of_a_process_in_another_mount_namespace(tool, tmp_path):
    region = tmp_path / "hidden" / "r"
    region.parent.mkdir()
    inside = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {region.parent} && exec "$@"', "sh"]
    with Actor(region, LIMIT, f"requested=0:{GIB}", BOUND, prefix=inside) as actor:
        shown = only_region(tool.json("status", "--json", "--pid", actor.pid))
        assert not region.exists(), "the region is visible outside: the test shows nothing"
    assert shown["devices"][0]["used_bytes"] == GIB
    assert shown["region"] == f"/proc/{actor.pid}/root{region}"


def test_a_process_limited_on_its_own_is_found_by_its_pid_and_shown_as_private_with_the_reason(tool, tmp_path):
    """Nowhere to put a region: a read-only /tmp and /dev/shm."""
    inside = ["unshare", "--mount", "sh", "-c",
              'mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp && mount -t tmpfs -o ro none /dev/shm && exec "$@"',
              "sh"]
    with Actor("/proc/nowhere", LIMIT, f"requested=0:{GIB}", BOUND, prefix=inside) as actor:
        shown = only_region(tool.json("status", "--json", "--pid", actor.pid))
    assert shown["region"] == f"private:{actor.pid}"
    assert shown["state"] == "private"
    assert [r["code"] for r in shown["processes"][0]["reasons"]] == ["REGION_PRIVATE"]
    assert shown["devices"][0]["used_bytes"] == GIB and shown["devices"][0]["limit_bytes"] == 4 * GIB


def test_without_a_region_it_says_what_to_do_and_fails(tool, tmp_path):
    done = tool("status", "--name", "nobody")
    assert done.returncode == 1 and "nobody" in done.stderr and not done.stdout
    done = tool("status", tmp_path / "missing")
    assert done.returncode == 1 and "No such file" in done.stderr


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\0" * 4000000, os.urandom(4000000)], ids=["empty", "short", "zeros", "noise"])
def test_a_file_that_is_no_region_is_refused_and_not_believed(tool, tmp_path, content):
    region = tmp_path / "r"
    region.write_bytes(content)
    done = tool("status", region)
    assert done.returncode == 1 and "is not a region of this version" in done.stderr
    assert region.read_bytes() == content


def test_a_region_whose_rows_are_noise_crashes_nothing(tool, tmp_path):
    region = tmp_path / "r"
    with Actor(region, LIMIT, BOUND):
        content = bytearray(region.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    for verb in (["status"], ["status", "--json"], ["metrics"]):
        done = tool(*verb, bad)
        assert done.returncode == 0, (verb, done.returncode, done.stderr[-300:])
        assert all(c.isprintable() or c == "\n" for c in done.stdout)

"""The protocol's model: complete searches must find nothing, and each model broken on purpose must be found out."""
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "test/model/ledger.pml"

THREADS = ["-DTH", "-DN=3", "-DS=2", "-DCR=0", "-DBIG=1", "-DLIMIT=2"]
SOUND = {
    "one_crash_high_water_mark_slot_reuse_and_calls_that_fail": ["-DHI", "-DFAIL", "-DCR=1"],
    "two_threads_and_a_process_share_rows": [*THREADS, "-DRAISES=false"],
    "two_threads_have_a_share_and_a_process_revokes_it": [*THREADS, "-DFIRST"],
    "three_processes_of_whom_one_has_a_share": ["-DSH", "-DFIRST", "-DN=3", "-DS=3", "-DCR=0", "-DBIG=1", "-DLIMIT=2"],
    "one_has_a_share_and_one_crash": ["-DSH", "-DHI", "-DFAIL", "-DCR=1"],
    "one_has_a_share_and_each_asks_twice": ["-DSH", "-DHALF", "-DK=2", "-DCR=0"],
    "one_has_a_share_a_stop_for_ever_and_every_wait_may_time_out": ["-DSH", "-DTMO", "-DST=1", "-DCR=0"],
    "one_has_a_share_and_a_crash_while_every_wait_may_time_out": ["-DSH", "-DTMO", "-DCR=1"],
    "one_is_charged_without_being_asked": ["-DCHG=2", "-DS=3", "-DSH", "-DCR=0", "-DBIG=1", "-DLIMIT=2"],
}
BROKEN = {
    "rows_of_the_dead_are_zeroed": ["-DBUG_ZERO"],
    "committed_bytes_are_summed_in_one_pass": ["-DBUG_ONEPASS", "-DN=3", "-DCR=0"],
    "shares_are_not_counted": ["-DBUG_SHARE_UNCOUNTED", "-DSH", "-DCR=0"],
    "a_share_is_taken_without_a_look": ["-DBUG_SHARE_UNSEEN", "-DK=2", "-DCR=0"],
    "a_share_is_read_after_its_row": ["-DBUG_SHARE_LATE", "-DSH", "-DK=2", "-DCR=0"],
    "a_share_is_looked_at_before_the_announcement": ["-DBUG_SHARE_EARLY", "-DSH", "-DCR=0"],
    "a_revoked_share_is_written_again": ["-DBUG_SHARE_RESTORED", "-DSH", "-DK=2", "-DCR=0"],
    "rows_are_not_read_again_after_a_revocation": ["-DBUG_REVOKE_UNSEEN", "-DSH", "-DCR=0"],
    "a_charge_leaves_the_shares": ["-DBUG_CHARGE_KEEPS", "-DCHG=2", "-DS=3", "-DSH", "-DCR=0", "-DBIG=1", "-DLIMIT=2"],
    "another_thread_uses_a_share_before_the_look": ["-DBUG_SHARE_UNPROVEN", *THREADS, "-DFIRST"],
}


def search(tmp_path, definitions, *, is_progress=False, optimization="-O2", minutes=3):
    """Spin's verdict: (errors, is_complete, states)."""
    def run(*command):
        return subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, timeout=60 * minutes)

    generated = run("spin", "-a", *definitions, str(MODEL))
    assert (tmp_path / "pan.c").exists(), generated.stdout + generated.stderr
    kind = ["-DNP", "-DNFAIR=4"] if is_progress else ["-DSAFETY"]
    built = run("gcc", optimization, "-w", "-DCOLLAPSE", "-DMEMLIM=6000", *kind, "-o", "pan", "pan.c")
    assert built.returncode == 0, built.stderr
    out = run("./pan", "-m200000", "-w24", *(["-l", "-f"] if is_progress else [])).stdout
    line = next(line for line in out.splitlines() if "errors:" in line)
    states = next(line for line in out.splitlines() if "states, stored" in line).split()[0]
    is_complete = "Search not completed" not in out and "max search depth too small" not in out
    return int(line.split("errors:")[1]), is_complete, float(states)


@pytest.mark.parametrize("name", SOUND)
def test_the_limit_is_kept_and_nobody_is_refused_what_fits(name, tmp_path):
    errors, is_complete, states = search(tmp_path, SOUND[name])
    assert (errors, is_complete) == (0, True) and states > 10000


def test_somebody_always_gets_on(tmp_path):
    errors, is_complete, _ = search(tmp_path, ["-DSH", "-DCR=1"], is_progress=True)
    assert (errors, is_complete) == (0, True)


@pytest.mark.parametrize("name", BROKEN)
def test_a_model_broken_on_purpose_is_found_out(name, tmp_path):
    assert search(tmp_path, BROKEN[name], optimization="-O0")[0] > 0  # found soon: compiling takes longer


def test_two_that_keep_their_announcements_while_waiting_are_found_to_wait_for_each_other(tmp_path):
    assert search(tmp_path, ["-DBUG_KEEP", "-DCR=0"], is_progress=True, optimization="-O0")[0] > 0

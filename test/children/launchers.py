"""Programs that start others, and ways of losing the variables on the way: what becomes of the limit.

As a command it writes the table of docs/children.md from what it sees: launchers.py
"""
import argparse
import shlex
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pods  # noqa: E402
from pods import AT, KEPT, PATH, SPECIFICATION  # noqa: E402

CHILD = f"{AT}/child"
RAISED = "HIP_DEVICE_MEMORY_LIMIT_0=64G HSA_CU_MASK=0:0-255"
NAMES = "LD_AUDIT HIP_DEVICE_MEMORY_LIMIT_0 HSA_CU_MASK GLIBC_TUNABLES LD_BIND_NOW".split()

# LAUNCHER: what runs the command {c}, given as one shell command.
LAUNCHERS = {
    "dash": "dash -c {q}",
    "bash": "bash -c {q}",
    "bash, exec -c": "bash -c {exec_c}",
    "make": "printf 'all:\\n\\t@%s\\n' {q} | make -sf -",
    "timeout": "timeout 60 {c}",
    "nohup": "nohup {c}",
    "nice": "nice {c}",
    "xargs": "echo {c} | xargs env",
    "find -exec": "find /etc/passwd -exec {c} ';'",
    "setpriv": "setpriv --reuid=1000 --regid=1000 --clear-groups {c}",
    "sudo, by root": "sudo {c}",
    "sudo, by a user": "setpriv --reuid=1000 --regid=1000 --clear-groups sudo -n {c}",
    "su": "su -c {q}",
    "su -": "su - -c {q}",
    "login shell": "python3 -c 'import os, sys; os.execve(\"/bin/bash\", [\"-bash\", \"-c\", sys.argv[1]], "
                   "{{\"HOME\": \"/root\", \"TERM\": \"dumb\"}})' {q}",
    "tmux": "export LC_ALL=C.UTF-8; tmux -L x -f /dev/null new-session -d {tmux}; "
            "for i in $(seq 100); do [ -e /tmp/done ] && break; sleep 0.2; done; cat /tmp/out",
    "mpirun": "HOME=/root mpirun.openmpi --allow-run-as-root --oversubscribe --mca btl self --mca plm isolated -n 1 {c}",
    "python subprocess": "python3 -c 'import subprocess, sys; subprocess.run(sys.argv[1:], env={{}})' {c}",
    "python os.system": "python3 -c 'import os, sys; os.environ.clear(); os.system(sys.argv[1])' {q}",
    "python fork": f"python3 {AT}/workers.py fork {{q}}",
    "python spawn": f"python3 {AT}/workers.py spawn {{q}}",
    "python forkserver": f"python3 {AT}/workers.py forkserver {{q}}",
    "gdb": "gdb -q -batch -nx -ex run --args {c} </dev/null",
    "strace": "strace -f -o /dev/null {c}",
    "valgrind": "valgrind --tool=none -q --trace-children=yes {c}",
    "a static program": f"{AT}/raw_static {{c}}",
    "a musl program": f"{AT}/raw_musl {{c}}",
    "a system call by hand": f"{AT}/raw {{c}}",
}

# WAY: what is put before the launcher and before the child.
WAYS = {
    "launcher in an empty environment": (f"env -i PATH={PATH} TERM=dumb", ""),
    "child in an empty environment": ("", "/usr/bin/env -i"),
    "variables unset": ("env " + " ".join(f"-u {name}" for name in NAMES), ""),
    "more asked for": (f"env {RAISED}", f"/usr/bin/env {RAISED}"),
}

# How a pod is set up: the parent's environment, the pod specification's, whether the guard is there.
SETUPS = {
    "library": dict(environment=SPECIFICATION, specification={"PATH": PATH}, guard=False),
    "library and guard": dict(environment={}, specification=SPECIFICATION, guard=True),
}

SECURE, UNSEEN = "hole: AT_SECURE", "hole: no exec of libc's"

# What does not keep the limit, and why. Everything else does.
HOLES = {
    "library": {"sudo, by a user": SECURE, "a static program": UNSEEN, "a musl program": UNSEEN, "a system call by hand": UNSEEN},
    "library and guard": {},
}


def expected(setup, launcher):
    return HOLES[setup].get(launcher, "kept")


def command_line(launcher, way):
    before, child = WAYS[way]
    child = f"{child} {CHILD}".strip()
    words = {"c": child, "q": shlex.quote(child), "exec_c": shlex.quote(f"exec -c {child}"),
             "tmux": shlex.quote(f"{child} >/tmp/out 2>&1; touch /tmp/done")}
    line = LAUNCHERS[launcher].format(**words)
    return f"{before} sh -c {shlex.quote(line)}" if before else line


def pod_of(suite, setup):
    return pods.Pod(suite, guard=SETUPS[setup]["guard"], specification=SETUPS[setup]["specification"], launchers=True)


def outcome(pod, setup, launcher, way):
    """"kept", "lost", or what else was said."""
    line = "rm -rf /tmp/*; " + command_line(launcher, way)  # a file of another user in /tmp stands in the way
    try:
        done = pod.run(line, {"PATH": PATH, "LC_ALL": "C", "TERM": "dumb", **SETUPS[setup]["environment"]})
    except subprocess.TimeoutExpired:
        return f"did not end: {line}"
    said = {line for line in done.stdout.splitlines() if line.startswith("limit=")}
    if said == {KEPT}:
        return "kept"
    if said and all(line.startswith("limit=16384M") for line in said):
        return "lost"
    return f"{sorted(said)} {done.returncode} {done.stdout[-300:]} {done.stderr[-600:]}"


def run(suites, launchers=tuple(LAUNCHERS)):
    """((setup, launcher, way, suite), outcome), one after the other."""
    for setup in SETUPS:
        for suite in suites:
            with pod_of(suite, setup) as pod:
                for launcher in launchers:
                    for way in WAYS:
                        yield (setup, launcher, way, suite), outcome(pod, setup, launcher, way)


def cell(seen, setup, launcher, way):
    """One word for all releases, or what differs."""
    outcomes = {suite: seen[setup, launcher, way, suite] for suite in pods.SUITES}
    words = {suite: "kept" if o == "kept" else expected(setup, launcher) if o == "lost" else "?" for suite, o in outcomes.items()}
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return "; ".join(f"{pods.SUITES[suite]}: {word}" for suite, word in words.items())


def table(seen):
    lines = []
    for setup in SETUPS:
        lines += [f"### With the {setup}", "", "| | " + " | ".join(WAYS) + " |", "|---" * (len(WAYS) + 1) + "|"]
        lines += [f"| {launcher} | " + " | ".join(cell(seen, setup, launcher, way) for way in WAYS) + " |" for launcher in LAUNCHERS]
        lines.append("")
    return "\n".join(lines)


DOCUMENT = pods.TOP / "docs" / "children.md"
BEGIN, END = "<!-- table: test/children/launchers.py -->\n", "<!-- end of table -->"


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--show", nargs="*", metavar="SUITE", help="print every outcome of these releases, write nothing")
    options.add_argument("--only", nargs="*", default=list(LAUNCHERS), metavar="LAUNCHER")
    chosen = options.parse_args()
    if chosen.show is not None:
        for key, result in run(chosen.show, chosen.only):
            print(*key, result, sep=" | ", flush=True)
        return
    text = DOCUMENT.read_text()
    before, after = text[:text.index(BEGIN) + len(BEGIN)], text[text.index(END):]
    DOCUMENT.write_text(before + "\n" + table(dict(run(pods.SUITES))) + after)


if __name__ == "__main__":
    main()

"""However a program starts another one, with however empty an environment, the other stays in the pod."""
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "test" / "route"))
import routes  # noqa: E402

TLS = "glibc.rtld.optional_static_tls=8192"
WAYS = ("execve execve_null execv execvp execvpe execl execlp execle fexecve execveat posix_spawn "
        "posix_spawnp old_posix_spawn system system_unset popen syscall syscall_at vfork pointer dlsym "
        "small_thread merge").split()

# Each loses the variables in its own way and starts `./show 'a b'`.
LAUNCHERS = {
    "env -i": "exec env -i ./show 'a b'",
    "env -u": "exec env -u LD_AUDIT -u AMVGPU_KEPT -u GLIBC_TUNABLES -u LD_BIND_NOW ./show 'a b'",
    "env -i twice": "exec env -i env -i ./show 'a b'",
    "bash exec -c": "exec bash -c \"exec -c ./show 'a b'\"",
    "bash unset": "exec bash -c \"unset LD_AUDIT AMVGPU_KEPT GLIBC_TUNABLES LD_BIND_NOW; ./show 'a b'; :\"",
    "dash unset": "exec dash -c \"unset LD_AUDIT AMVGPU_KEPT GLIBC_TUNABLES LD_BIND_NOW; ./show 'a b'; :\"",
    "a script": "exec env -i ./script",
    "xargs": "echo \"'a b'\" | exec xargs env -i ./show",
    "find -exec": "exec find ./script -exec env -i ./show 'a b' ';'",
    "nice": "exec env -i nice ./show 'a b'",
    "nohup": "exec env -i nohup ./show 'a b' 2>nohup.err",
    "timeout": "exec env -i timeout 5 ./show 'a b'",
    "perl exec": "exec perl -e '%ENV = (); exec \"./show\", \"a b\"'",
    "perl system": "exec perl -e '%ENV = (); system \"./show\", \"a b\"'",
    "perl backticks": "exec perl -e '%ENV = (); print `./show \"a b\"`'",
    "python subprocess": "exec python3 -c 'import subprocess; subprocess.run([\"./show\", \"a b\"], env={})'",
    "python shell": "exec python3 -c 'import subprocess as s; "
                    "s.run(\"./show \\\"a b\\\"\", env={}, shell=True)'",
    "python fork": "exec python3 -c 'import subprocess as s; "
                   "s.run([\"./show\", \"a b\"], env={}, preexec_fn=int)'",
    "python posix_spawn": "exec python3 -c 'import os; "
                          "os.waitpid(os.posix_spawn(\"./show\", [\"x\", \"a b\"], {}), 0)'",
    "python execve": "exec python3 -c 'import os; os.execve(\"./show\", [\"x\", \"a b\"], {})'",
    "python system": "exec python3 -c 'import os; os.environ.clear(); os.system(\"./show \\\"a b\\\"\")'",
    "python popen": "exec python3 -c 'import os; os.environ.clear(); "
                    "print(os.popen(\"./show \\\"a b\\\"\").read())'",
    "python spawn": "exec python3 -c 'import multiprocessing.spawn, os; os.environ.clear(); "
                    "os.spawnv(os.P_WAIT, \"./show\", [\"x\", \"a b\"])'",
}


@pytest.fixture(scope="module", params=routes.SUITES)
def place(request):
    """A directory in a root with the parts, where commands can be run."""
    routes.make_roots(list(routes.SUITES))
    routes.make_parts()
    root = TOP / "build" / "roots" / request.param
    directory = Path(tempfile.mkdtemp(prefix="exec.", dir=root / "tmp"))
    shutil.copytree(TOP / "build" / "route" / "exec", directory, dirs_exist_ok=True)
    script = directory / "script"
    script.write_text("#!/bin/sh\nexec ./show 'a b'\n")
    script.chmod(0o755)
    yield routes.Inside(root, directory)
    shutil.rmtree(directory)


def run(place, command, **variables):
    here = place.here
    given = {"PATH": "/usr/bin:/bin:" + here, "LD_AUDIT": f"{here}/exec_audit.so", "AMVGPU_KEPT": "it's kept",
             "LC_ALL": "C", **variables}
    done = place.run(["/bin/sh", "-c", command], {name: value for name, value in given.items() if value})
    assert not done.stderr
    return done.stdout.strip()


def kept(place, tunables=TLS):
    bind_now = "1" if place.root.name == "bullseye" else "-"
    return f"[a b]audit=exec_audit.so kept=it's kept tunables={tunables} bind_now={bind_now}"


LOST = "[a b]audit=- kept=- tunables=- bind_now=-"


@pytest.mark.parametrize("program", ["launch", "launch_noplt", "launch_fixed"])
@pytest.mark.parametrize("way", WAYS)
def test_every_exec_function_keeps_the_pod_in_an_empty_environment(place, program, way):
    if way == "execveat" and place.root.name == "bullseye":
        expected = "this libc has none"
    else:
        expected = kept(place, "glibc.malloc.check=0:" + TLS if way == "merge" else TLS)
    assert run(place, f"exec ./{program} {way}") == expected


def test_a_library_that_comes_late_keeps_the_pod_too(place):
    assert run(place, "exec ./late") == kept(place)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_keeps_the_pod_in_an_empty_environment(place, launcher):
    assert run(place, LAUNCHERS[launcher]) == kept(place)


@pytest.mark.parametrize("program", ["launch", "launch_noplt", "launch_fixed"])
def test_errors_arguments_and_the_callers_environment_are_what_they_would_be(place, program):
    assert run(place, f"exec ./{program} failing") == "wrong=0"


def test_without_anything_to_keep_nothing_is_added(place):
    assert run(place, "exec env -i ./show 'a b'", LD_AUDIT=None) == LOST


def test_what_a_program_sets_itself_is_not_changed(place):
    own = run(place, "AMVGPU_KEPT=own GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096 exec ./show 'a b'")
    assert own.startswith("[a b]audit=exec_audit.so kept=own tunables=glibc.rtld.optional_static_tls=4096 ")


def test_known_hole_a_system_call_by_hand_loses_the_pod(place):
    assert run(place, "exec ./raw") == LOST


def test_known_hole_a_static_program_loses_the_pod(place):
    assert run(place, "exec ./raw_static") == LOST

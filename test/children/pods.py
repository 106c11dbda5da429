"""Pods in roots of several Debians: a PID 1 with the pod's environment, and programs that start in it from outside.

A root is a copy made of hard links, so that files of its own (/etc/ld.so.preload) can be put in; never this machine's.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "test" / "route"))
import routes  # noqa: E402

BUILD = TOP / "build"
HERE = TOP / "test" / "children"
LIBRARY = TOP / "build-hip" / "libamvgpu.so"
GUARD = TOP / "build-hip" / "libamvgpu_guard.so"
STANDIN = BUILD / "all" / "softgpu" / "hip"
SUITES = routes.SUITES
AT = "/opt/children"  # the programs, in a root
LIBRARY_AT = "/usr/local/vgpu/libamvgpu.so"
GUARD_AT = "/usr/local/vgpu/libamvgpu_guard.so"
PATH = f"{AT}:/usr/sbin:/usr/bin:/sbin:/bin"
SPECIFICATION = {"PATH": PATH, "LD_AUDIT": LIBRARY_AT, "HIP_DEVICE_MEMORY_LIMIT_0": "1024m", "HSA_CU_MASK": "0:0-7"}
KEPT = "limit=1024M mask=0:0-7"
CARD = "limit=16384M mask=-"  # nothing is limited: the stand-in's whole card
LAUNCHERS = ("make util-linux login passwd sudo tmux procps gdb strace valgrind openmpi-bin libpam-modules libpam-runtime "
             "ncurses-base grep sed mawk libc-bin").split()


def compile_child(source, output, *flags, libraries=True):
    old = BUILD / "roots" / "bullseye" / "lib" / "x86_64-linux-gnu"
    libs = ["-nodefaultlibs", old / "libc.so.6", old / "libdl.so.2", f"-Wl,-rpath-link,{old}"] if libraries else []
    new = output.with_suffix(".new")
    subprocess.run(["gcc", "-O2", "-Wall", "-fno-stack-protector", "-o", new, HERE / source, *flags, *libs], check=True)
    new.rename(output)  # a pod may be using the old one


def make_programs():
    """In build/children/programs, once for all test runners."""
    routes.make_roots(["bullseye"])
    folder = BUILD / "children" / "programs"
    with routes.only_one():
        folder.mkdir(parents=True, exist_ok=True)
        newest = max(p.stat().st_mtime for p in [*HERE.glob("*.c"), HERE / "workers.py",
                                                LIBRARY, GUARD, STANDIN / "libamdhip64.so.7"])
        mark = folder / ".made"
        if mark.exists() and mark.stat().st_mtime >= newest:
            return folder
        compile_child("child.c", folder / "child")
        compile_child("by_hand.c", folder / "by_hand")
        compile_child("raw.c", folder / "raw")
        compile_child("raw.c", folder / "raw_static", "-static", libraries=False)
        compile_child("start.c", folder / "start", "-static", libraries=False)
        subprocess.run(["musl-gcc", "-O2", "-o", folder / "raw_musl", HERE / "raw.c"], check=True)
        shutil.copy(HERE / "workers.py", folder / "workers.py")
        for file in (STANDIN / "libamdhip64.so.7", STANDIN / "libhsa-runtime64.so.1", LIBRARY, GUARD):
            shutil.copy(file, folder / ".new")
            (folder / ".new").rename(folder / file.name)  # a pod may be using the old one
        mark.touch()
    return folder


ACCOUNTS = {
    "passwd": "root:x:0:0:root:/root:/bin/bash\npod:x:1000:1000:pod:/tmp:/bin/bash\n",
    "group": "root:x:0:\npod:x:1000:\ntty:x:5:\n",
    "shadow": "root:*:19000:0:99999:7:::\npod:*:19000:0:99999:7:::\n",
    "sudoers": "Defaults env_reset, !requiretty\nroot ALL=(ALL) NOPASSWD: ALL\npod ALL=(ALL) NOPASSWD: ALL\n",
    "hosts": f"127.0.0.1 localhost {os.uname().nodename}\n",
    "login.defs": "",
    "environment": "",
}
PAM = "".join(f"{kind} sufficient pam_permit.so\n" for kind in ("auth", "account", "password", "session"))


def put(path, text, mode=0o644):
    """A file of its own in place of a hard link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


def make_root(suite, guard, launchers=False):
    """A copy of a root with our programs in it, and the guard where asked for."""
    kind = "launchers" if launchers else "plain"
    root = BUILD / "children" / f"{suite}-{kind}{'-guard' if guard else ''}"
    source = BUILD / ("launch-roots" if launchers else "roots")
    environment = {**os.environ, "AMVGPU_ROOTS": str(source)}
    if launchers:
        environment["AMVGPU_ROOTS_WITH"] = ",".join(LAUNCHERS)
    with routes.only_one():
        if root.exists():
            return root
        subprocess.run([TOP / "test" / "roots", suite], env=environment, check=True, stdout=subprocess.DEVNULL)
        partial = root.with_suffix(f".{os.getpid()}")
        root.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-al", source / suite, partial], check=True)
        for name, text in ACCOUNTS.items():
            put(partial / "etc" / name, text, {"sudoers": 0o440, "shadow": 0o600}.get(name, 0o644))
        for name in ("su", "su-l", "sudo", "sudo-i", "login", "other", "runuser", "runuser-l"):
            put(partial / "etc" / "pam.d" / name, PAM)
        if (partial / "usr/bin/sudo").exists():  # unpacked without its owner's bits in some ways of making a root
            (partial / "usr/bin/sudo").chmod(0o4755)
        for name in ("opt/children", "usr/local/vgpu", "proc", "root", "dev"):
            (partial / name).mkdir(parents=True, exist_ok=True)
        shutil.copy("/lib/ld-musl-x86_64.so.1", partial / "lib" / "ld-musl-x86_64.so.1")
        put(partial / LIBRARY_AT[1:], "")
        put(partial / GUARD_AT[1:], "")
        if guard:
            put(partial / "etc" / "ld.so.preload", GUARD_AT + "\n")
        partial.rename(root)
    return root


class Pod:
    """A PID 1 in a root. Without a specification its environment says nothing, and what is given is all there is."""

    def __init__(self, suite, guard=False, specification=None, launchers=False):
        self.specification = SPECIFICATION if specification is None else specification
        self.programs = make_programs()
        self.root = make_root(suite, guard, launchers)

    def __enter__(self):
        script = ('mount -t tmpfs -o mode=1777 tmpfs "$0/tmp" && mount --bind "$1" "$0/opt/children" && '
                  'mount --bind "$1/libamvgpu.so" "$0/usr/local/vgpu/libamvgpu.so" && '
                  'mount --bind "$1/libamvgpu_guard.so" "$0/usr/local/vgpu/libamvgpu_guard.so" && '
                  'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && root=$0 && shift && '
                  'exec chroot "$root" /opt/children/start "$@" -- /bin/sh -c "echo ready; read x"')
        self.init = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, self.root, self.programs,
             *[f"{name}={value}" for name, value in self.specification.items()]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.init.stdout.readline() == "ready\n"
        children = Path(f"/proc/{self.init.pid}/task/{self.init.pid}/children").read_text().split()
        self.pid = children[0]
        return self

    def __exit__(self, *_):
        self.init.stdin.close()
        self.init.wait()
        self.init.stdout.close()

    def command(self, command, environment=None, user=None):
        """A command line that starts command in the pod from outside, with that environment and no other."""
        variables = {"PATH": PATH, "LC_ALL": "C"} if environment is None else environment
        line = ["nsenter", "-t", self.pid, "--mount", "--pid", f"--root=/proc/{self.pid}/root"]
        if user:
            line += [f"--setuid={user}", f"--setgid={user}"]
        return [*line, AT + "/start", *[f"{n}={v}" for n, v in variables.items()], "--", *command]

    def run(self, command, environment=None, user=None, **options):
        if isinstance(command, str):
            command = ["/bin/sh", "-c", command]
        return subprocess.run(self.command(command, environment, user), capture_output=True, text=True, timeout=40,
                              stdin=subprocess.DEVNULL, **options)

    def says(self, command, environment=None, user=None):
        """What the child at the end of the command says."""
        done = self.run(command, environment, user)
        return done.stdout.strip() or f"nothing: {done.returncode} {done.stderr.strip()}"

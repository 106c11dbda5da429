"""Real containers without an engine: OCI bundles for crun or runc, on a root made by mmdebstrap.

A container here is what a kubelet makes of a pod with a slice: namespaces of its own, the library bind-mounted read-only at
/usr/local/vgpu/libamvgpu.so, the settings in the environment of PID 1. The root is shared by all and never written to:
each container that may write gets a tmpfs where it needs one.
"""
import contextlib
import functools
import json
import os
import pathlib
import shutil
import subprocess
import time
import uuid

from tool import BUILD, ROOT, build_library, build_program, build_runtime, build_tool, exclusive, need, quietly

LIBRARY = "/usr/local/vgpu/libamvgpu.so"
TOOLS = "/opt/test"  # where the stand-in, the programs and amvgpu are in a container


@functools.cache
def root():
    """A Debian that has glibc, a shell and what amvgpu is linked to; about 180 MB, made once."""
    folder = BUILD / "container-root"
    with exclusive("container-root"):
        if not (folder / "etc" / "debian_version").exists():
            need("mmdebstrap", "mmdebstrap")
            quietly("mmdebstrap", "--variant=minbase", "--include=libjson-c5,libmicrohttpd12,libncursesw6,python3-minimal",
                    "bookworm", folder)
    return folder


@functools.cache
def runtime():
    """The command that runs containers on this machine. crun refuses a hybrid of cgroup v1 and v2: there it gets a mount
    namespace in which /sys/fs/cgroup is v2 alone."""
    crun = need("crun", "crun")
    hybrid = pathlib.Path("/sys/fs/cgroup/unified").exists()
    command = [crun, "--cgroup-manager=disabled", f"--root={BUILD}/crun"]
    if hybrid:
        only_v2 = 'umount -R /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"'
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", only_v2, "sh", *command]
    return command


@functools.cache
def programs():
    """A folder with the stand-in runtimes and the programs of the tests, to be mounted at TOOLS."""
    folder = BUILD / "container-programs"
    with exclusive("container-programs"):
        folder.mkdir(exist_ok=True)
        for library in build_runtime().glob("lib*.so*"):
            replace(library, folder / library.name)
        replace(build_program("allocate", ROOT / "test/container/allocate.c", flags=["-ldl"]), folder / "allocate")
        replace(build_tool(), folder / "amvgpu")
    return folder


def replace(source, target):
    shutil.copy(source, target.with_suffix(".new"))
    os.replace(target.with_suffix(".new"), target)


def bind(source, target, *options):
    return {"source": str(source), "destination": str(target), "type": "bind", "options": ["bind", *options]}


class Container:
    """One container; PID 1 sleeps until the block ends, programs run by exec unless given to run()."""

    def __init__(self, tmp_path, environment=None, user=0, readonly_root=True, mounts=(), tmp=None, library=None, limits=None,
                 library_at=LIBRARY, forbidden_calls=()):
        self.name = f"amvgpu-{uuid.uuid4().hex[:12]}"
        self.bundle = tmp_path / self.name
        self.user = user
        self.library = library or build_library()
        self.environment = {"PATH": f"{TOOLS}:/usr/sbin:/usr/bin:/sbin:/bin", "LD_LIBRARY_PATH": TOOLS, "SOFTGPU_CAPACITY": "16G",
                            "LD_AUDIT": library_at, **(limits or {}), **(environment or {})}
        self.environment = {k: v for k, v in self.environment.items() if v is not None}
        tmp_mount = {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]}
        if tmp == "none":
            extra = []
        else:
            extra = [bind(tmp, "/tmp", "rw") if tmp else tmp_mount]
        self.mounts = [*extra, bind(self.library, library_at, "ro"), bind(programs(), TOOLS, "ro"), *mounts]
        self.readonly_root = readonly_root
        self.forbidden_calls = forbidden_calls

    def config(self, command):
        spec = self.bundle / "config.json"
        if not spec.exists():
            self.bundle.mkdir(exist_ok=True)
            quietly("crun", "spec", cwd=self.bundle)
        config = json.loads(spec.read_text())
        config["root"] = {"path": str(root()), "readonly": self.readonly_root}
        process = config["process"]
        process.update(terminal=False, args=[str(c) for c in command], cwd="/", user={"uid": self.user, "gid": self.user},
                       env=[f"{k}={v}" for k, v in self.environment.items()])
        # As containerd does: an ordinary user has no capability, and nobody an inheritable one.
        bounding = process["capabilities"]["bounding"]
        process["capabilities"] = {"bounding": bounding} | ({} if self.user else {"effective": bounding, "permitted": bounding})
        config["mounts"] = [m for m in config["mounts"] if m["destination"] != "/sys/fs/cgroup"]
        have = {m["destination"] for m in config["mounts"]}
        config["mounts"] += [m for m in self.mounts if m["destination"] not in have]
        if self.forbidden_calls:
            rule = {"names": list(self.forbidden_calls), "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
            config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [rule]}
        spec.write_text(json.dumps(config))

    def run(self, *command, timeout=60):
        """The command as PID 1, to its end."""
        self.config(command)
        return subprocess.run([*runtime(), "run", "--bundle", str(self.bundle), self.name], capture_output=True, text=True, timeout=timeout)

    def __enter__(self):
        self.config(["sleep", "infinity"])
        self.process = subprocess.Popen([*runtime(), "run", "--bundle", str(self.bundle), self.name], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while self.state() != "running":
            assert self.process.poll() is None and time.monotonic() < deadline, "the container did not start"
            time.sleep(0.05)
        return self

    def state(self):
        done = subprocess.run([*runtime(), "state", self.name], capture_output=True, text=True)
        return json.loads(done.stdout)["status"] if done.returncode == 0 else "absent"

    @property
    def pid(self):
        """Of its PID 1, as the host counts."""
        return json.loads(quietly(*runtime(), "state", self.name).stdout)["pid"]

    def exec_command(self, *command, environment=None, user=None):
        """exec as kubectl does it: the container's environment, with changes; None removes a variable."""
        env = self.environment | (environment or {})
        flags = [f for k, v in env.items() if v is not None for f in ("--env", f"{k}={v}")]
        command = [str(c) for c in command]
        lost = [k for k, v in env.items() if v is None]
        if lost:  # crun adds to the container's environment and cannot take away
            command = ["/usr/bin/env", *[f for k in lost for f in ("-u", k)], *command]
        user = self.user if user is None else user  # crun's exec is root's unless told otherwise; a kubelet's is the container's
        flags += ["--user", f"{user}:{user}"]
        return [*runtime(), "exec", *flags, self.name, *command]

    def exec(self, *command, timeout=60, **options):
        return subprocess.run(self.exec_command(*command, **options), capture_output=True, text=True, timeout=timeout)

    @contextlib.contextmanager
    def background(self, *command, wait_for="granted", **options):
        """A program that goes on while the block runs; its first line must be wait_for."""
        process = subprocess.Popen(self.exec_command(*command, **options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline().strip()
            assert line == wait_for, (line, process.poll() is not None and process.stderr.read())
            yield process
        finally:
            # The runtime's exec does not hand signals on to a PID of another namespace in every version: end it inside.
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def __exit__(self, *_):
        subprocess.run([*runtime(), "kill", self.name, "KILL"], capture_output=True)
        self.process.wait(timeout=20)
        subprocess.run([*runtime(), "delete", "--force", self.name], capture_output=True)

"""Every way in to the runtime's functions, and one run of each in a root of a given Debian.

As a command it prints the table: matrix.py [--library FILE] [--forbid in_place|copy|both] [SUITE...]
"""
import argparse
import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PARTS = TOP / "build" / "route"
SUITES = {"bullseye": "2.31", "bookworm": "2.36", "trixie": "2.41", "sid": "newest"}
STANDARD = "lib/libamdhip64.so.7"


@dataclass(frozen=True)
class Route:
    """A way in: what is run in the directory of the parts, with which runtime in its search path."""
    name: str
    command: tuple
    runtime: str = "lib"
    environment: dict = field(default_factory=dict, hash=False)


def linked_routes():
    yield Route("lazy PLT", ("lazy", "x"))
    yield Route("-z now", ("now", "x"))
    yield Route("LD_BIND_NOW", ("lazy", "x"), environment={"LD_BIND_NOW": "1"})
    yield Route("-fno-plt", ("noplt", "x"))
    for module, name in (("calls", "calls"), ("table", "static table"), ("pointer", "static pointer"),
                         ("local", "address in a local"), ("weak", "weak reference"),
                         ("deleter", "C++ deleter")):
        yield Route(f"PIE, {name}", (f"pie_{module}", "x"))
        yield Route(f"non-PIE, {name}", (f"fixed_{module}", "x"))


def lookup_routes():
    for how in ("dlsym_default", "dlsym_handle", "dlsym_next", "dlvsym", "dlvsym_old", "hipGetProcAddress",
                "hipGetDriverEntryPoint"):
        yield Route(how, ("lookup", how))
    yield Route("Python ctypes", ("python3", "by_ctypes.py", STANDARD))


def plugin_routes():
    for kind in ("lazy", "now", "noplt", "table", "pointer", "local", "weak"):
        for mode in ("lazy", "now", "deepbind", "namespace"):
            call = "dlmopen" if mode == "namespace" else f"dlopen {mode}"
            yield Route(f"{call}, plugin {kind}", ("loader", "plugin", "x", mode, f"./plugin_{kind}.so"))


def copy_routes():
    renamed, second = "./renamed/libamdhip64-a1b2c3.so", "./second/libamdhip64.so.7"
    for mode in ("lazy", "now"):
        yield Route(f"dlopen {mode}, runtime", ("loader", "runtime", "x", mode, STANDARD))
        yield Route(f"dlopen {mode}, renamed", ("loader", "runtime", "x", mode, renamed))
        yield Route(f"dlopen {mode}, three copies",
                    ("loader", "runtime", "x", mode, STANDARD, renamed, second))
        yield Route(f"dlclose and reload {mode}", ("loader", "reload", "x", mode, second))
    yield Route("dlmopen, runtime", ("loader", "runtime", "x", "namespace", STANDARD))
    yield Route("dlmopen, two copies", ("loader", "runtime", "x", "namespace", STANDARD, second))
    for kind in ("noseparate", "symbolic", "sysv"):
        yield Route(f"{kind} runtime, lazy PLT", ("lazy", "x"), kind)
        yield Route(f"{kind} runtime, -fno-plt", ("noplt", "x"), kind)
        yield Route(f"{kind} runtime, non-PIE table", ("fixed_table", "x"), kind)
        yield Route(f"{kind} runtime, reload",
                    ("loader", "reload", "x", "now", f"./{kind}/libamdhip64.so.7"), kind)


ROUTES = [*linked_routes(), *lookup_routes(), *plugin_routes(), *copy_routes()]


@contextlib.contextmanager
def only_one():
    """Test runners work side by side in one tree; what they build is built by the first."""
    (TOP / "build").mkdir(exist_ok=True)
    with open(TOP / "build" / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_roots(suites):
    with only_one():
        subprocess.run([TOP / "test" / "roots", *suites], check=True, stdout=subprocess.DEVNULL)


def make_parts():
    make_roots(["bullseye"])
    with only_one():
        subprocess.run(["make", "-s", "-j2", "-C", TOP / "test" / "route", f"OUT={PARTS}"], check=True)


def rows():
    """The names in the table that have a wrapper, as the preprocessor sees them."""
    source = '#define ROW(name, node) @ name\n#include "rows.h"\n'
    text = subprocess.run(["gcc", "-E", "-P", "-I", TOP / "test" / "route", "-x", "c", "-"], input=source,
                          capture_output=True, text=True, check=True).stdout
    return [word for mark, word in zip(text.split(), text.split()[1:]) if mark == "@"]


def enter(root):
    """The start of a command line that runs the rest inside root."""
    return ["chroot", root] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "chroot", root]


class Inside:
    """A directory inside a root, where commands are run."""

    def __init__(self, root, directory):
        self.root, self.here = root, "/" + str(directory.relative_to(root))

    def run(self, command, variables):
        return subprocess.run([*enter(self.root), "/bin/sh", "-c", 'cd "$0" && exec env -i "$@"', self.here,
                               *[f"{name}={value}" for name, value in variables.items()], *command],
                              capture_output=True, text=True, timeout=60)


class Place:
    """The parts inside a root, for one audit library and one way of patching.

    own: the name of one of the parts' own audit libraries, or None to run without any.
    library: the file of a product's library instead; its wrappers are told by their address (route_stub).
    """

    def __init__(self, suite, library=None, forbid=None, own="audit.so"):
        self.suite, self.forbid, self.library = suite, forbid, library
        self.audit = Path(library).name if library else own
        self.root = TOP / "build" / "roots" / suite
        self.rows = len(rows())

    def __enter__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="route.", dir=self.root / "tmp"))
        shutil.copytree(PARTS, self.directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("exec"))
        if self.library:
            shutil.copy(self.library, self.directory)
        self.inside = Inside(self.root, self.directory)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)

    def environment(self, route):
        here = self.inside.here
        variables = {"PATH": f"{here}:/usr/bin:/bin", "LD_LIBRARY_PATH": f"{here}/{route.runtime}:{here}",
                     **route.environment}
        if self.audit:
            variables["LD_AUDIT"] = f"{here}/{self.audit}"
        if self.forbid:
            variables["ROUTE_FORBID"] = self.forbid
        if self.library:
            variables |= {"ROUTE_STUB": self.audit, "HIP_DEVICE_MEMORY_LIMIT_0": "1G"}
        return variables

    def run(self, route):
        """What came of it: "wrapped", or what went wrong in how many rows."""
        return self.judge(self.inside.run(route.command, self.environment(route)))

    def judge(self, done):
        if done.returncode < 0:
            return f"killed by signal {-done.returncode}"
        fields = done.stdout.split()
        if done.returncode or done.stderr or len(fields) < 5:
            return f"failed: {done.returncode} {done.stderr.strip()} {done.stdout.strip()}"
        wrapped, leaked, odd, first = (int(fields[-4]), int(fields[-3]), int(fields[-2]), fields[-1])
        if wrapped == self.rows and not leaked and not odd:
            return "wrapped"
        if leaked == self.rows:
            return "leaks"
        return f"{leaked} leak, {odd} odd ({first}...)"


def run_suite(suite, **how):
    with Place(suite, **how) as place:
        return {route.name: place.run(route) for route in ROUTES}


def table(columns):
    lines = [f"{'':36}" + "".join(f" {suite + ' ' + SUITES[suite]:16}" for suite in columns)]
    for route in ROUTES:
        lines.append(f"{route.name:36}" + "".join(f" {column[route.name]:16}" for column in columns.values()))
    return "\n".join(lines)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--library")
    options.add_argument("--forbid", choices=("in_place", "copy", "both"))
    options.add_argument("suites", nargs="*", metavar="SUITE")
    chosen = options.parse_args()
    suites = chosen.suites or list(SUITES)
    make_roots(suites)
    make_parts()
    print(f"{len(rows())} functions, each through every way")
    print(table({suite: run_suite(suite, library=chosen.library, forbid=chosen.forbid) for suite in suites}))


if __name__ == "__main__":
    main()

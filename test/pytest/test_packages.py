"""Packages: what `make install`, the .deb and a node's installation put where, and that they disturb nobody."""
import fcntl
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading

import pytest
from conftest import BUILD, GIB, LIBRARY, ROOT, STANDIN, Program, clean_environment, compile_c
from test_build import debian_mirror, source_tree

sys.path.insert(0, str(ROOT / "test" / "container"))
from bundle import Container  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packages")]
WORK = BUILD / "packages"
INSTALL = ROOT / "packaging" / "install_library"
VERSION = re.search(r"^project\(\S+ VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
EPOCH = "1700000000"
HOME = "usr/libexec/amvgpu"


def run(command, status=0, **options):
    options.setdefault("env", clean_environment())
    result = subprocess.run(command, text=True, capture_output=True, cwd=options.pop("cwd", ROOT), **options)
    assert result.returncode == status, f"{result.returncode}\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


def make(*arguments, cwd=ROOT, **variables):
    return run(["make", "-f", "Makefile.hip", *arguments], cwd=cwd, env=clean_environment(CMAKE_BUILD_PARALLEL_LEVEL=2, **variables))


def tree(folder):
    """path -> mode in octal, or the target of a link; folders are left out."""
    return {str(p.relative_to(folder)): os.readlink(p) if p.is_symlink() else oct(p.stat().st_mode & 0o7777)[2:]
            for p in folder.rglob("*") if p.is_symlink() or not p.is_dir()}


def make_deb(source, folder):
    make("deb", f"BUILD_DIR={folder}", f"DIST_DIR={folder}/dist", cwd=source, SOURCE_DATE_EPOCH=EPOCH)
    return folder / "dist" / f"amvgpu_{VERSION}_amd64.deb"


@pytest.fixture(scope="module")
def deb():
    """The package; what is out of date in it is built anew."""
    WORK.mkdir(parents=True, exist_ok=True)
    with open(WORK / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return make_deb(ROOT, WORK / "deb")


@pytest.fixture(scope="module")
def unpacked(deb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    run(["dpkg-deb", "-x", deb, folder])
    return folder


# ---- the .deb ----

def lintian(package, status):
    return run(["lintian", "--allow-root", "--fail-on", "error,warning", package], status)


def test_lintian_finds_neither_errors_nor_warnings(deb):
    lintian(deb, 0)


def test_lintian_would_find_a_package_without_copyright_and_with_debugging_symbols(deb, tmp_path):
    run(["dpkg-deb", "-R", deb, tmp_path / "package"])
    (tmp_path / "package/usr/share/doc/amvgpu/copyright").unlink()
    shutil.copy(LIBRARY, tmp_path / "package" / HOME / "libamvgpu.so")
    run(["dpkg-deb", "--root-owner-group", "-b", tmp_path / "package", tmp_path / "broken.deb"])
    found = lintian(tmp_path / "broken.deb", 2)
    assert "E: amvgpu: no-copyright-file" in found and "E: amvgpu: unstripped-binary-or-object" in found


def test_the_package_has_these_files_and_no_others(unpacked):
    assert tree(unpacked) == {
        "usr/bin/amvgpu": "../libexec/amvgpu/amvgpu",
        f"{HOME}/amvgpu": "755",
        f"{HOME}/install_library": "755",
        f"{HOME}/libamvgpu.so": "644",
        f"{HOME}/libamvgpu_guard.so": "644",
        "usr/share/bash-completion/completions/amvgpu": "644",
        "usr/share/doc/amvgpu/CHANGELOG.md": "644",
        "usr/share/doc/amvgpu/changelog.gz": "644",
        "usr/share/doc/amvgpu/copyright": "644",
        "usr/share/doc/amvgpu/deploy.md": "644",
        "usr/share/lintian/overrides/amvgpu": "644",
        "usr/share/man/man1/amvgpu.1.gz": "644",
        "usr/share/man/man7/libamvgpu.7.gz": "644",
    }
    assert all(p.stat().st_mode & 0o777 == 0o755 for p in unpacked.rglob("*") if p.is_dir())


def test_the_package_is_of_this_version_runs_no_scripts_and_depends_on_what_the_tool_is_linked_to(deb, tmp_path):
    run(["dpkg-deb", "-e", deb, tmp_path / "control"])
    assert {p.name for p in (tmp_path / "control").iterdir()} == {"control", "md5sums"}
    fields = dict(line.split(": ", 1) for line in (tmp_path / "control/control").read_text().splitlines() if line.strip() and line[0] != " ")
    assert (fields["Package"], fields["Version"], fields["Architecture"]) == ("amvgpu", VERSION, "amd64")
    needed = re.findall(r"([\w.+-]+) \(>= [\w.]+\)", fields["Depends"])
    assert needed == ["libc6", "libjson-c5", "libmicrohttpd12", "libncursesw6", "libtinfo6"]


def test_the_packages_library_is_freestanding_as_the_one_of_the_plugin_is(unpacked):
    run(["test/check_glibc_abi.sh", unpacked / HOME / "libamvgpu.so"])
    assert "NEEDED" not in run(["readelf", "-dW", unpacked / HOME / "libamvgpu_guard.so"])


def test_another_folder_makes_the_same_package_byte_for_byte_and_neither_is_named_in_it(deb, unpacked, tmp_path):
    again = make_deb(source_tree(tmp_path / "elsewhere"), tmp_path / "another-build")
    assert again.read_bytes() == deb.read_bytes()
    for path in unpacked.rglob("*"):
        if path.is_file():
            assert str(ROOT).encode() not in path.read_bytes(), path


# ---- a bare Debian ----

class Root:
    """A bare bookworm with apt; commands run in it, with a /proc of their own."""

    def __init__(self, folder):
        self.folder = folder

    def command(self, *command, **environment):
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8", **environment}
        return ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={self.folder}/proc", "chroot", self.folder,
                "/usr/bin/env", "-i", *[f"{k}={v}" for k, v in environment.items()], *command]

    def run(self, *command, status=0, **environment):
        return run(self.command(*command, **environment), status)

    def doctor(self, *before, status, **environment):
        answer = json.loads(self.run(*before, "amvgpu", "doctor", "--json", status=status, **environment))
        return answer, {f["code"]: f["level"] for f in answer["findings"]}


def bare_root(archive):
    """A tar archive of a bare bookworm, made once."""
    with open(WORK / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            scratch = archive.with_suffix(".new.tar")
            run(["mmdebstrap", "--quiet", "--variant=apt", "--aptopt=Acquire::Check-Valid-Until \"false\"",
                 "--aptopt=APT::Install-Recommends \"false\"", "--include=ca-certificates", "bookworm", scratch,
                 f"deb {debian_mirror()} bookworm main"])
            scratch.rename(archive)


@pytest.fixture(scope="module")
def bare(deb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bare")
    bare_root(WORK / "bookworm.tar")
    run(["tar", "-xf", WORK / "bookworm.tar", "-C", folder, "--exclude=./dev/*"])
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    for device in ("null", "zero", "urandom"):
        run(["cp", "-a", f"/dev/{device}", folder / "dev" / device])
    shutil.copy(deb, folder / "tmp/amvgpu.deb")
    yield Root(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def installed(bare):
    """The same with the package in it."""
    depends = re.findall(r"([\w.+-]+) \(", bare.run("dpkg-deb", "-f", "/tmp/amvgpu.deb", "Depends"))
    missing = subprocess.run(bare.command("dpkg", "-i", "/tmp/amvgpu.deb"), text=True, capture_output=True)
    assert missing.returncode == 1 and "depends on libjson-c5" in missing.stderr
    bare.run("dpkg", "--purge", "amvgpu")
    bare.run("apt-get", "update")
    bare.run("apt-get", "install", "-y", "--no-install-recommends", *depends)
    bare.run("dpkg", "-i", "/tmp/amvgpu.deb")
    return bare


def test_in_a_bare_root_the_package_is_installed_and_tells_its_version(installed):
    assert installed.run("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", "amvgpu") == f"installed {VERSION}"
    assert VERSION in installed.run("amvgpu", "version")
    assert installed.run("dpkg", "--verify", "amvgpu") == ""


def test_there_doctor_says_with_status_1_that_nothing_loads_the_library_and_no_gpu_is_given(installed):
    answer, found = installed.doctor(status=1)
    assert not answer["enforced"]
    assert {"AUDIT_UNSET", "LIMIT_UNSET", "HIP_MISSING"} <= {code for code, level in found.items() if level == "loss"}
    assert found["KFD_MISSING"] == "warning"


def test_there_run_finds_the_packages_library_and_only_hip_is_missing(installed):
    answer, found = installed.doctor("amvgpu", "run", "--memory", "1G", "--", status=1)
    assert answer["library"] == f"/{HOME}/libamvgpu.so"
    assert {code for code, level in found.items() if level == "loss"} == {"HIP_MISSING"}


def test_there_with_a_hip_runtime_doctor_says_with_status_0_that_the_limit_is_enforced(installed):
    folder = installed.folder / "opt/standin"
    folder.mkdir()
    for name in ("libamdhip64.so.7", "libhsa-runtime64.so.1"):
        shutil.copy(STANDIN / name, folder / name)
    answer, found = installed.doctor("amvgpu", "run", "--memory", "1G", "--", status=0, LD_LIBRARY_PATH="/opt/standin")
    assert answer["enforced"] and "loss" not in found.values()
    (probe,) = answer["processes"]
    assert probe["symbols_bound"] and probe["state"] == "enforced"


def test_there_bash_completes_the_verbs(installed):
    script = "source /usr/share/bash-completion/completions/amvgpu; complete -p amvgpu"
    assert "amvgpu" in installed.run("bash", "-c", script)


def test_there_the_package_leaves_nothing_when_it_is_purged_and_its_own_installer_serves_the_node(installed):
    installed.run(f"/{HOME}/install_library", f"/{HOME}/libamvgpu.so", "/usr/local/vgpu")
    installed.run("dpkg", "--purge", "amvgpu")
    left = [p for p in tree(installed.folder) if "amvgpu" in p and not p.startswith(("proc/", "tmp/", "var/log/"))]
    assert left == ["usr/local/vgpu/libamvgpu.so"]
    installed.run("dpkg", "-i", "/tmp/amvgpu.deb")


# ---- make install ----

@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """make install with a DESTDIR and a PREFIX of its own, under a umask that would keep others out."""
    folder = tmp_path_factory.mktemp("staged")
    before = os.umask(0o077)
    try:
        make("install", f"BUILD_DIR={WORK / 'install'}", f"DESTDIR={folder}", "PREFIX=/opt/amd-slice")
    finally:
        os.umask(before)
    return folder


def test_make_install_puts_these_files_below_destdir_and_prefix_and_no_others(staged):
    assert tree(staged / "opt/amd-slice") == {
        "vgpu/libamvgpu.so": "555",
        "vgpu/libamvgpu_guard.so": "555",
        "bin/amvgpu": "755",
        "share/man/man1/amvgpu.1": "644",
        "share/man/man7/libamvgpu.7": "644",
        "share/bash-completion/completions/amvgpu": "644",
    }
    assert [p.name for p in staged.iterdir()] == ["opt"]
    assert all(p.stat().st_mode & 0o777 == 0o755 for p in (staged / "opt").rglob("*") if p.is_dir())


def test_the_installed_amvgpu_finds_the_installed_library(staged):
    home = staged / "opt/amd-slice"
    environment = clean_environment(XDG_RUNTIME_DIR=staged.parent)
    seen = run([home / "bin/amvgpu", "run", "--memory", "1G", "--", "env"], env=environment).splitlines()
    assert f"LD_AUDIT={home}/vgpu/libamvgpu.so" in seen


def test_install_library_installs_the_libraries_alone_and_twice_is_once(tmp_path):
    seen = set()
    for _ in range(2):
        make("install-library", f"BUILD_DIR={WORK / 'install'}", f"DESTDIR={tmp_path}")
        seen.add(((tmp_path / "usr/local/vgpu/libamvgpu.so").stat().st_ino, (tmp_path / "usr/local/vgpu").stat().st_mtime_ns))
    assert tree(tmp_path) == {"usr/local/vgpu/libamvgpu.so": "555", "usr/local/vgpu/libamvgpu_guard.so": "555"}
    assert len(seen) == 1


# ---- a node: replacing the library under running programs ----

@pytest.fixture
def versions(tmp_path):
    """Two libraries that differ, and that work alike: what follows the last section is nobody's. They are stripped, so that
    a part of one is not a library without its debugging symbols."""
    run(["strip", "-o", tmp_path / "stripped", LIBRARY])
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "libamvgpu.so").write_bytes((tmp_path / "stripped").read_bytes() + name.encode())
    return [tmp_path / name / "libamvgpu.so" for name in ("old", "new")]


def mapped(program, library):
    """inode numbers of library in a program's memory."""
    with open(f"/proc/{program.pid}/maps") as maps:
        return {int(line.split()[4]) for line in maps if str(library) in line}


def test_a_program_runs_on_under_the_old_library_and_a_new_one_gets_the_new_and_both_share_the_limit(pod, versions, tmp_path):
    old, new = versions
    target = tmp_path / "vgpu" / "libamvgpu.so"
    run([INSTALL, old, target.parent])
    first_inode = target.stat().st_ino
    first = pod.run("1G", LD_AUDIT=target)
    first.ok("malloc a 600M")
    run([INSTALL, new, target.parent])
    second = pod.run("1G", LD_AUDIT=target)
    assert target.read_bytes() == new.read_bytes()
    assert mapped(first, target) == {first_inode} and mapped(second, target) == {target.stat().st_ino} != {first_inode}
    assert second("malloc b 600M").error == 2
    second.ok("malloc b 400M")
    assert first("malloc c 100M").error == 2
    first.ok("free a")
    second.ok("malloc c 600M")
    assert first.ok("hammer 4 200 1M 7").granted
    assert first.end() == "" and second.end() == ""


def total_under(library, folder):
    """The card's size as a program sees it that starts under the library now."""
    environment = clean_environment(LD_AUDIT=library, LD_LIBRARY_PATH=STANDIN, HIPSH_RUNTIME="libamdhip64.so.7", SOFTGPU_CAPACITY="16G",
                                    HIP_DEVICE_MEMORY_SHARED_CACHE=folder / "region", HIP_DEVICE_MEMORY_LIMIT_0="1G")
    program = Program([compile_c("test/e2e/hipsh.c", "hipsh")], environment)
    try:
        return program.ok("info").total
    finally:
        program.kill()


def test_no_program_that_starts_while_the_library_is_replaced_all_the_time_finds_half_of_it(versions, tmp_path):
    target = tmp_path / "vgpu" / "libamvgpu.so"
    run([INSTALL, versions[0], target.parent])
    stop, replaced, seen = threading.Event(), [], []

    def replace():
        while not stop.is_set():
            run([INSTALL, versions[(len(replaced) + 1) % 2], target.parent])
            replaced.append(target.stat().st_ino)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        while thread.is_alive() and (len(seen) < 40 or len(replaced) < 10):
            seen.append(total_under(target, tmp_path))
    finally:
        stop.set()
        thread.join()
    assert set(seen) == {1 * GIB} and len(replaced) >= 10


def test_half_of_a_library_or_none_of_it_would_have_been_noticed(versions, tmp_path):
    whole = versions[0].read_bytes()
    versions[0].write_bytes(whole[:len(whole) // 2])
    with pytest.raises(AssertionError):
        total_under(versions[0], tmp_path)
    versions[0].write_bytes(b"")
    assert total_under(versions[0], tmp_path) == 16 * GIB


def refused(*arguments):
    result = subprocess.run([INSTALL, *arguments], text=True, capture_output=True)
    assert result.returncode == 1, result.stderr
    return result.stderr


def test_what_is_no_library_is_refused_and_the_old_one_stays(versions, tmp_path):
    folder = tmp_path / "vgpu"
    run([INSTALL, versions[0], folder])
    before = (folder / "libamvgpu.so").stat()
    (tmp_path / "libamvgpu.so").write_bytes(b"")
    assert "no shared object; nothing was installed" in refused(tmp_path / "libamvgpu.so", folder)
    refused(tmp_path / "absent" / "libamvgpu.so", folder)
    assert (folder / "libamvgpu.so").stat() == before and os.listdir(folder) == ["libamvgpu.so"]


def test_a_disk_that_is_full_keeps_the_old_library_and_no_rest_of_the_new(versions, tmp_path):
    folder = tmp_path / "vgpu"
    run([INSTALL, versions[0], folder])
    done = subprocess.run(["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", INSTALL, versions[1], folder], text=True, capture_output=True)
    assert done.returncode != 0
    assert (folder / "libamvgpu.so").read_bytes() == versions[0].read_bytes() and os.listdir(folder) == ["libamvgpu.so"]


def test_an_empty_folder_in_the_librarys_place_is_replaced_and_a_full_one_is_not(versions, tmp_path):
    target = tmp_path / "vgpu" / "libamvgpu.so"
    (target / "somebodys").mkdir(parents=True)
    assert "remove it first" in refused(versions[0], target.parent)
    (target / "somebodys").rmdir()
    run([INSTALL, versions[0], target.parent])
    assert target.read_bytes() == versions[0].read_bytes()


def test_a_library_with_another_mode_or_behind_a_link_becomes_a_file_of_mode_0555(versions, tmp_path):
    target = tmp_path / "vgpu" / "libamvgpu.so"
    target.parent.mkdir()
    target.symlink_to(versions[0])
    for _ in range(2):
        run([INSTALL, versions[0], target.parent])
        assert not target.is_symlink() and target.stat().st_mode & 0o7777 == 0o555
        target.chmod(0o600)


# ---- docs/deploy.md ----

DEPLOY = (ROOT / "docs" / "deploy.md").read_text()


def docker_example():
    """Its options: (variables, mounts)."""
    command = re.search(r"^docker run --rm .*?(?<!\\)$", DEPLOY, re.M | re.S)[0].replace("\\\n", " ")
    words = shlex.split(command)
    values = lambda option: [b for a, b in zip(words, words[1:]) if a == option]
    return dict(v.split("=", 1) for v in values("-e")), values("-v")


def pod_example():
    variables = dict(re.findall(r"- \{name: (\w+), value: (\S+)\}", DEPLOY))
    return variables, re.findall(r"mountPath: (\S+), readOnly: true", DEPLOY)


@pytest.mark.parametrize("example", [docker_example, pod_example])
def test_a_container_with_the_documented_variables_and_mount_is_limited(example, tmp_path):
    variables, (mount,) = example()
    assert variables["LD_AUDIT"] in mount and variables["HIP_DEVICE_MEMORY_LIMIT_0"] in ("16G", "16384m")
    container = Container(tmp_path, limits=variables, environment={"SOFTGPU_CAPACITY": "32G"})
    assert container.run("allocate", "16385m").stdout.strip() == "refused"
    assert container.run("allocate", "16384m").stdout.strip() == "granted"

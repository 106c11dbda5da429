"""Build and delivery: what amd-device-plugin and a newcomer rely on."""
import os
import re
import shutil
import subprocess

import pytest
from conftest import LIBRARY, ROOT, clean_environment


def run(command, **options):
    result = subprocess.run(command, text=True, capture_output=True, cwd=options.pop("cwd", ROOT),
                            env=options.pop("env", clean_environment()), **options)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def source_tree(folder):
    """A copy of what git would give a stranger (and what is not committed yet)."""
    files = run(["git", "ls-files", "--cached", "--others", "--exclude-standard"]).splitlines()
    for name in files:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def exports(library):
    lines = run(["readelf", "-W", "--dyn-syms", library]).splitlines()
    fields = [line.split() for line in lines if line.strip()[:1].isdigit()]
    return ({f[7] for f in fields if len(f) > 7 and f[4] == "GLOBAL" and f[6] != "UND"},
            {f[7] for f in fields if len(f) > 7 and f[6] == "UND"})


def test_the_library_exports_its_callbacks_and_needs_nothing():
    defined, undefined = exports(LIBRARY)
    assert {"la_version", "la_objopen", "la_symbind64"} <= defined
    assert all(name.startswith("la_") for name in defined)
    assert not undefined
    assert "NEEDED" not in run(["readelf", "-dW", LIBRARY])


def test_the_library_has_at_most_16_bytes_of_thread_local_storage_and_no_executable_stack():
    segments = run(["readelf", "-lW", LIBRARY])
    tls = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(\S+)", segments, re.M)
    assert int(tls[1], 16) <= 16
    assert re.search(r"GNU_STACK.*RW\s", segments)
    assert "BIND_NOW" in run(["readelf", "-dW", LIBRARY])


def test_the_documented_abi_check_passes_and_can_fail():
    run(["test/check_glibc_abi.sh", LIBRARY])
    libc = next(p for p in ("/usr/lib/x86_64-linux-gnu/libm.so.6", "/lib/x86_64-linux-gnu/libm.so.6") if os.path.exists(p))
    assert subprocess.run(["test/check_glibc_abi.sh", libc], cwd=ROOT, capture_output=True).returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ("gcc", "clang"))
def test_another_build_folder_type_and_compiler_give_the_same_library(tmp_path, compiler):
    out = tmp_path / "out"
    run(["make", "-f", "Makefile.hip", "all", f"BUILD_DIR={out}", "BUILD_TYPE=Debug", "ROCM_HOME=/nowhere"],
        env=clean_environment(CC=compiler))
    run(["test/check_glibc_abi.sh", out / "libamvgpu.so"])
    assert "CMAKE_BUILD_TYPE:STRING=Debug" in (out / "CMakeCache.txt").read_text()
    subprocess.run(["/bin/true"], env=clean_environment(LD_AUDIT=out / "libamvgpu.so"), check=True)


@pytest.mark.slow
def test_cmakelists_hip_alone_builds_the_library_as_a_build_folders_own(tmp_path):
    (tmp_path / "CMakeLists.txt").symlink_to(ROOT / "CMakeLists.txt.hip")
    run(["cmake", "-S", tmp_path, "-B", tmp_path / "out"])
    run(["cmake", "--build", tmp_path / "out", "--parallel", "2"])
    run(["test/check_glibc_abi.sh", tmp_path / "out" / "libamvgpu.so"])


def dockerfile():
    """The instructions of Dockerfile.hip: (word, rest)."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile.hip").read_text())
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            word, rest = line.split(None, 1)
            yield word, rest


def debian_mirror():
    targets = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"])
    return next(line.split()[0] for line in targets.splitlines() if re.search(r"/debian/? \w+$", line))


@pytest.mark.slow
def test_the_steps_of_the_dockerfile_work_in_a_bare_root(tmp_path):
    root = tmp_path / "root"
    options = ["--quiet", "--variant=apt", "--aptopt=Acquire::Check-Valid-Until \"false\"",
               "--aptopt=APT::Install-Recommends \"false\"", "--include=ca-certificates"]
    run(["mmdebstrap", *options, "bookworm", root, f"deb {debian_mirror()} bookworm main"])
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    folder, shell = "/", ["chroot", root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                          "DEBIAN_FRONTEND=noninteractive", "sh", "-ec"]
    instructions = list(dockerfile())
    assert [w for w, _ in instructions][:2] == ["ARG", "FROM"]
    for word, rest in instructions[2:]:
        if word == "WORKDIR":
            folder = rest
            (root / folder.lstrip("/")).mkdir(parents=True)
        elif word == "COPY":
            assert rest == ". ."
            source_tree(root / folder.lstrip("/"))
        elif word == "RUN":
            run([*shell, f"cd {folder}; {rest}"])
        elif word == "CMD":
            (root / "dist").mkdir()
            command = eval(rest)
            assert command[:2] == ["sh", "-c"]
            run([*shell, f"cd {folder}; {command[2]}"])
    run(["test/check_glibc_abi.sh", root / "dist/libamvgpu.so"])
    assert (root / "dist/test_memory_limit").stat().st_size > 0


def test_a_header_never_includes_one_of_a_higher_layer():
    layers = ["sys", "multiprocess", "loader", "hip", "hsa", "kfd"]
    # The settings and the gate are what HSA and the kernel's tier stand on; the audit interface is the top of all.
    top = {"libamvgpu_audit.c"}
    below = {"sys": {"sys"}, "multiprocess": {"sys", "multiprocess"}, "loader": {"sys", "loader"},
             "hip": {"sys", "multiprocess", "loader", "hip"}, "kfd": {"sys", "multiprocess", "loader", "hip", "kfd"},
             "hsa": {"sys", "multiprocess", "loader", "hip", "kfd", "hsa"}}
    found = 0
    for layer in layers:
        for path in (ROOT / "src" / layer).iterdir():
            if path.suffix not in (".c", ".h", ".inc", ".def") or path.name in top:
                continue
            for included in re.findall(r'#include "\.\./(\w+)/', path.read_text()):
                found += 1
                assert included in below[layer], f"{path.name} includes {included}"
    assert found > 20


def test_docs_api_is_what_the_tables_say():
    run(["docs/generate", "--check"])


def test_the_readme_names_every_setting_and_stays_short():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 150
    for name in ("HIP_DEVICE_MEMORY_LIMIT_<i>", "HIP_DEVICE_MEMORY_LIMIT", "HIP_DEVICE_MEMORY_SHARED_CACHE", "HSA_CU_MASK",
                 "AMD_TASK_PRIORITY", "HIP_OVERSUBSCRIBE", "LIBHIP_LOG_LEVEL", "LD_AUDIT"):
        assert f"`{name}`" in readme
    for link in re.findall(r"\]\(([^)#]+)\)", readme):
        assert (ROOT / link).exists(), f"README links to {link}, which is not there"


def test_no_registry_host_and_no_path_of_this_machine_is_in_a_file():
    for name in run(["git", "ls-files"]).splitlines():
        if not (ROOT / name).is_file():
            continue
        text = (ROOT / name).read_text(errors="replace")
        assert not re.search(r"https?://(?!www\.apache\.org|127\.|localhost|\[|prometheus\.io)[\w.-]*(debian|pypi|mirror)", text), name
        assert str(ROOT) not in text, name


def test_ci_calls_check_and_check_explains_itself():
    assert "./check" in (ROOT / ".ci" / "run").read_text()
    assert "N passed, N failed" in run(["./check", "--help"])
    wrong = subprocess.run(["./check", "--fastt"], cwd=ROOT, text=True, capture_output=True)
    assert wrong.returncode == 2 and "--help" in wrong.stderr
    wrong = subprocess.run(["./demo", "--rocmm"], cwd=ROOT, text=True, capture_output=True)
    assert wrong.returncode == 2 and "--help" in wrong.stderr


def test_the_readme_says_what_the_benchmark_says_of_the_cost():
    summary = (ROOT / "bench/RESULTS.md").read_text().split("\n\n")[2]
    assert " ".join(summary.split()) in " ".join((ROOT / "README.md").read_text().split())

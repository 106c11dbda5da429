"""The stand-ins as the loader and the auditor see them: names, versions, needs, and calls to themselves."""
import re
import subprocess

import pytest

from standin import BUILD, TOP, build

MAJORS = {5: 57, 6: 64, 7: 72}


@pytest.fixture(autouse=True, scope="module")
def built():
    build()


def table(release):
    """{name: node} of what that release exports."""
    rows = {}
    for name in ("src/hip/hip_api.def", "softgpu/hip/standin_extra.def"):
        text = (TOP / name).read_text()
        for row in re.finditer(r"^(?:ALLOC|FREE|HAND|PASS|EXTRA|STUB)\((\w+), (\w+\.\d+), (\d+)(?:, (\d+)\))?", text, re.M):
            name, node, since, until = row.groups()
            if int(since) <= release <= int(until or 99):
                assert name not in rows, name
                rows[name] = node
    return rows


def exports(library):
    """{name: version} of defined symbols, with @@ only: each is the default."""
    done = subprocess.run(["readelf", "--dyn-syms", "-W", BUILD / library], capture_output=True, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) >= 8 and words[6] != "UND" and words[3] in ("FUNC", "OBJECT", "NOTYPE") and "@@" in words[7]:
            name, version = words[7].split("@@")
            assert name not in found
            if name != version:
                found[name] = version
        elif len(words) >= 8 and words[6] not in ("UND", "ABS") and words[4] == "GLOBAL":
            raise AssertionError(f"{words[7]} has no default version")
    return found


def dynamic(library, tag):
    done = subprocess.run(["readelf", "-dW", BUILD / library], capture_output=True, text=True, check=True)
    return re.findall(rf"\({tag}\).*\[(.*)\]", done.stdout)


@pytest.mark.parametrize("major, release", MAJORS.items())
def test_libamdhip64_exports_what_the_tables_say_with_those_versions_and_nothing_else(major, release):
    assert exports(f"libamdhip64.so.{major}") == table(release)


def test_libhsa_runtime64_exports_what_its_table_says_as_ROCR_1_and_one_name_of_our_own():
    names = re.findall(r"^HSA(?:_STUB)?\((\w+)\)", (TOP / "softgpu/hip/standin_hsa.def").read_text(), re.M)
    assert exports("libhsa-runtime64.so.1") == {**dict.fromkeys(names, "ROCR_1"), "softgpu_open": "SOFTGPU_1"}


@pytest.mark.parametrize("major", MAJORS)
def test_version_nodes_follow_one_another_as_in_the_real_library(major):
    done = subprocess.run(["readelf", "-VW", BUILD / f"libamdhip64.so.{major}"], capture_output=True, text=True, check=True)
    defined = re.findall(r"Index: \d+  Cnt: (\d)  Name: (hip_[\d.]+)", done.stdout)
    parents = re.findall(r"Parent 1: (hip_[\d.]+)", done.stdout)
    nodes = [name for _, name in defined]
    assert nodes == sorted(nodes, key=lambda n: [int(x) for x in n[4:].split(".")])
    assert parents == nodes[:-1]
    last = {5: "hip_5.6", 6: "hip_6.4", 7: "hip_7.2"}[major]
    assert nodes[0] == "hip_4.2" and nodes[-1] == last


@pytest.mark.parametrize("major", MAJORS)
def test_libamdhip64_has_the_real_SONAME_and_needs_libhsa_runtime64(major):
    name = f"libamdhip64.so.{major}"
    assert dynamic(name, "SONAME") == [name]
    assert "libhsa-runtime64.so.1" in dynamic(name, "NEEDED")
    assert dynamic("libhsa-runtime64.so.1", "SONAME") == ["libhsa-runtime64.so.1"]
    assert (BUILD / "libamdhip64.so").resolve() == BUILD / "libamdhip64.so.7"


def jump_slots(library):
    done = subprocess.run(["readelf", "-rW", BUILD / library], capture_output=True, text=True, check=True)
    slots = re.findall(r"R_X86_64_JUMP_SLO\w*\s+\w+\s+(\w+)", done.stdout)
    others = re.findall(r"R_X86_64_(?:GLOB_DAT|64)\s+\w+\s+(h\w+)", done.stdout)
    return set(slots), set(others)


@pytest.mark.parametrize("major, calls", [
    (5, {"hipMemGetInfo", "hipGetDevice", "hipGetDeviceProperties", "hipMallocPitch", "hipHostMalloc"}),
    (6, {"hipMemGetInfo", "hipGetDevice", "hipGetDevicePropertiesR0600"}),
    (7, {"hipMemGetInfo", "hipGetDevice", "hipGetDevicePropertiesR0600"}),
])
def test_libamdhip64_calls_of_its_own_exports_only_what_the_real_one_does_and_hsa_through_the_PLT(major, calls):
    slots, others = jump_slots(f"libamdhip64.so.{major}")
    assert {s for s in slots if s.startswith("hip")} == calls
    assert {"hsa_init", "hsa_queue_create", "hsa_amd_queue_set_priority", "hsa_amd_memory_pool_allocate",
            "hsa_amd_memory_pool_free", "hsa_amd_vmem_handle_create", "hsa_amd_vmem_handle_release"} <= slots
    assert not others


@pytest.mark.parametrize("library", [*(f"libamdhip64.so.{m}" for m in MAJORS), "libhsa-runtime64.so.1"])
def test_a_library_built_here_loads_on_glibc_2_31(library):
    done = subprocess.run(["objdump", "-T", BUILD / library], capture_output=True, text=True, check=True)
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", done.stdout)}
    assert max(versions) <= (2, 31)


@pytest.mark.parametrize("library", [*(f"libamdhip64.so.{m}" for m in MAJORS), "libhsa-runtime64.so.1"])
def test_thread_local_storage_is_static_as_in_the_real_libraries(library):
    done = subprocess.run(["readelf", "-rdW", BUILD / library], capture_output=True, text=True, check=True)
    assert "STATIC_TLS" in done.stdout
    assert "DTPMOD64" not in done.stdout and "TLSDESC" not in done.stdout


def test_every_setting_is_documented():
    rows = 0
    readme = (TOP / "softgpu/hip/README.md").read_text()
    for row in re.finditer(r'^SETTING_\w+\((\w+), \w+, [^"]*(?:"[^"]*", )?"(.*)"\)', (TOP / "softgpu/hip/settings.def").read_text(), re.M):
        assert f"`SOFTGPU_{row[1]}`" in readme
        assert row[2] in readme, row[2]
        rows += 1
    assert rows == len(re.findall(r"^SETTING_", (TOP / "softgpu/hip/settings.def").read_text(), re.M))


@pytest.mark.parametrize("compiler", ["clang"])
def test_another_compiler_builds_it_without_a_warning(compiler, tmp_path):
    subprocess.run(["cmake", "-S", TOP / "softgpu/hip", "-B", tmp_path, f"-DCMAKE_C_COMPILER={compiler}",
                    "-DCMAKE_C_FLAGS=-Werror"], check=True, capture_output=True)
    done = subprocess.run(["cmake", "--build", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(["readelf", "-rW", tmp_path / "libamdhip64.so.5"], capture_output=True, text=True, check=True)
    assert "hipMallocPitch@" in done.stdout

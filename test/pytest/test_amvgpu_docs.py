"""What people read: help, manual pages, completion. None of it may lag behind the tables."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
from tool import ROOT, Tool, need  # noqa: E402

VERBS = re.findall(r"^VERB\((\w+),", (ROOT / "tools/amvgpu/verb.def").read_text(), re.M)
PAGES = [ROOT / "docs/man/amvgpu.1", ROOT / "docs/man/libamvgpu.7"]


@pytest.fixture
def tool(tmp_path):
    return Tool(tmp_path / "runtime")


def options_of(tool, verb):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", tool(verb, "--help").stdout)) - {"--help", "--usage"}


def test_help_lists_every_verb_with_what_it_does(tool):
    done = tool("--help")
    assert done.returncode == 0 and not done.stderr
    assert re.findall(r"^  (\w+) +\w", done.stdout, re.M) == VERBS and len(VERBS) == 8


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_each_verb_is_on_stdout_and_succeeds(tool, verb):
    done = tool(verb, "--help")
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith(f"Usage: amvgpu {verb} ")


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_is_an_error_that_names_the_verb(tool, verb):
    done = tool(verb, "--no-such-option")
    assert done.returncode == (125 if verb == "run" else 2)
    assert f"amvgpu {verb}: " in done.stderr and not done.stdout


def test_no_verb_and_an_unknown_verb_are_errors_that_list_the_verbs(tool):
    for arguments in ([], ["no-such-verb"]):
        done = tool(*arguments)
        assert done.returncode == 2 and "doctor" in done.stderr and not done.stdout


def test_a_full_disk_is_not_success(tool):
    with open("/dev/full", "w") as full:
        done = subprocess.run([tool.path, "env"], stdout=full, stderr=subprocess.PIPE, text=True, env=tool.environment)
    assert done.returncode == 1 and "could not be written" in done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_manual_pages_render_without_a_warning(page):
    need("mandoc", "mandoc")
    need("man", "man-db")
    lint = subprocess.run(["mandoc", "-Tlint", page], capture_output=True, text=True)
    assert [line for line in lint.stdout.splitlines() if "referenced manual not found" not in line] == []
    done = subprocess.run(["man", "--warnings", "-l", "-Tutf8", "-Z", page], capture_output=True, text=True,
                          env=os.environ | {"LC_ALL": "C.UTF-8", "MANROFFSEQ": ""})
    assert done.returncode == 0 and done.stderr == ""


def test_the_tables_in_the_manual_are_those_of_the_source():
    assert subprocess.run([ROOT / "docs/man/fill", "--check"]).returncode == 0


@pytest.mark.parametrize("verb", VERBS)
def test_the_manual_has_every_option_of_a_verb_and_no_other(tool, verb):
    page = PAGES[0].read_text()
    body = re.search(rf"^\.Ss {verb}\n(.*?)^\.S[hs] ", page, re.M | re.S).group(1)
    synopsis = re.search(rf"^\.Nm\n\.Cm {verb}\n(.*?)^\.(?:Nm|Sh)", page, re.M | re.S).group(1)
    documented = {"--" + name for name in re.findall(r"Fl Fl ([a-z][a-z-]+)", synopsis)}
    assert documented == options_of(tool, verb)
    own = documented - ({"--name", "--pid"} if verb in ("top", "metrics", "reap") else set())
    assert own <= {"--" + name for name in re.findall(r"Fl Fl ([a-z][a-z-]+)", body)}


def test_libamvgpu_7_has_every_setting_of_the_library():
    page = PAGES[1].read_text()
    table = re.findall(r"^\tENV\((\w+),", (ROOT / "src/hip/env_policy.h").read_text(), re.M)
    assert len(table) > 5
    for name in [*table, "HIP_DEVICE_MEMORY_LIMIT", "HIP_DEVICE_MEMORY_LIMIT_<i>", "LD_AUDIT"]:
        assert re.search(rf"^\.It Ev (.* , )?{re.escape(name)}( ,|$)", page, re.M), name


def completions(tool, line):
    """What bash offers for a command line."""
    words = line.split(" ")
    quoted = " ".join(f"'{w}'" for w in words)
    script = (f'. "{ROOT}/tools/completion/amvgpu"; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _amvgpu; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    environment = tool.environment | {"PATH": f"{tool.path.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_verbs(tool):
    assert completions(tool, "amvgpu ") == {*VERBS, "--help", "--version"}
    assert completions(tool, "amvgpu do") == {"doctor"}


@pytest.mark.parametrize("verb", VERBS)
def test_bash_completes_exactly_the_options_of_each_verb(tool, verb):
    assert completions(tool, f"amvgpu {verb} --") - {"--help", "--usage"} == options_of(tool, verb)


def test_bash_completes_values_names_and_programs(tool, tmp_path):
    assert completions(tool, "amvgpu run --priority ") == {"high", "low"}
    folder = tmp_path / "runtime" / "amvgpu"
    folder.mkdir(parents=True)
    (folder / "training.region").write_text("")
    assert completions(tool, "amvgpu top --name tr") == {"training"}
    assert "env" in completions(tool, "amvgpu run --memory 4G en")
    assert "env" in completions(tool, "amvgpu doctor -- en")


def test_version_is_that_of_the_project(tool):
    project = re.search(r"^project\(.*VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
    assert tool("version").stdout.startswith(f"amvgpu {project}\n")
    assert tool("--version").stdout == tool("version").stdout


def test_cmake_names_the_debian_package_of_what_is_missing(tmp_path):
    done = subprocess.run(["cmake", "-S", ROOT / "tools/amvgpu", "-B", tmp_path / "b"], capture_output=True, text=True,
                          env=os.environ | {"PKG_CONFIG_LIBDIR": str(tmp_path), "PKG_CONFIG_PATH": ""})
    assert done.returncode != 0
    assert "apt-get install libjson-c-dev libmicrohttpd-dev libncurses-dev" in " ".join(done.stderr.split())


def test_the_library_is_built_without_looking_at_the_tool():
    dry = subprocess.run(["make", "-n", "-f", ROOT / "Makefile.hip", "all"], capture_output=True, text=True, cwd=ROOT).stdout
    assert "AMVGPU_ONLY_LIBRARY=ON" in dry
    assert "json-c" not in (ROOT / "CMakeLists.txt.hip").read_text()

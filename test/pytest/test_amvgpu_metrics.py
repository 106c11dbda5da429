"""amvgpu metrics: the names of the field, judged by promtool, replaced in one step, served over HTTP."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
from tool import GIB, MIB, ROOT, Actor, Tool, need  # noqa: E402

STEPS = [f"limit=0:{4 * GIB}", f"requested=0:{GIB}", f"physical=0:{GIB + MIB}", f"managed=0:{3 * MIB}", "allocations=2:1",
         f"refuse=0:{4 * GIB}", f"refuse=0:{5 * GIB}", "symbols=26:27", "reason=5:1"]


@pytest.fixture
def tool(tmp_path):
    return Tool(tmp_path / "runtime")


def samples(text):
    """{(name, frozenset of labels): value}; label values unescaped."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r'(\w+)\{(.*)\} (\d+)', line).groups()
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)
        found[name, frozenset((k, v.replace('\\"', '"').replace("\\\\", "\\")) for k, v in pairs)] = int(value)
    return found


def value(found, metric, **labels):
    hits = [v for (name, have), v in found.items() if name == metric and set(labels.items()) <= have]
    assert len(hits) == 1, (metric, labels, hits)
    return hits[0]


def promtool(text):
    return subprocess.run([need("promtool", "prometheus"), "check", "metrics"], input=text, capture_output=True, text=True)


def test_promtool_finds_nothing_to_complain_of(tool, tmp_path):
    with Actor(tmp_path / "a", *STEPS), Actor(tmp_path / "b", f"limit=3:{GIB}", "symbols=27:27"):
        text = tool("metrics", tmp_path / "a", tmp_path / "b", tmp_path / "missing").stdout
    done = promtool(text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert promtool(text.replace("# HELP hami_vgpu_memory_used_bytes", "# HELP other")).returncode != 0, "promtool accepts anything"


def test_the_values_are_those_of_the_ledger(tool, tmp_path):
    region = str(tmp_path / "r")
    with Actor(region, *STEPS) as actor:
        found = samples(tool("metrics", region).stdout)
    device = {"region": region, "vdevice_index": "0"}
    process = {"region": region, "pid": str(actor.pid), "command": "slot_actor"}
    assert value(found, "hami_vgpu_memory_used_bytes", **device) == GIB + MIB
    assert value(found, "hami_vgpu_memory_limit_bytes", **device) == 4 * GIB
    assert value(found, "hami_vgpu_memory_requested_bytes", **device) == GIB
    assert value(found, "hami_vgpu_memory_physical_bytes", **device) == GIB + MIB
    assert value(found, "hami_vgpu_memory_overhead_bytes", **device) == MIB
    assert value(found, "hami_vgpu_memory_managed_bytes", **device) == 3 * MIB
    assert value(found, "hami_vgpu_process_memory_used_bytes", **process) == GIB + MIB
    assert value(found, "hami_vgpu_process_allocations", **process) == 2
    assert value(found, "hami_vgpu_process_refusals_total", **process) == 2
    assert value(found, "hami_vgpu_process_last_refusal_bytes", **process) == 5 * GIB
    assert value(found, "hami_vgpu_processes", region=region, state="partial") == 1
    assert value(found, "hami_vgpu_processes", region=region, state="enforced") == 0
    assert value(found, "hami_vgpu_process_reason", reason="SYMBOLS_PARTIAL", **process) == 1
    assert value(found, "hami_vgpu_region_up", region=region) == 1


def test_a_device_without_a_limit_has_no_limit_sample(tool, tmp_path):
    with Actor(tmp_path / "r", f"limit=0:{GIB}", f"requested=1:{MIB}", "symbols=27:27"):
        found = samples(tool("metrics", tmp_path / "r").stdout)
    assert value(found, "hami_vgpu_memory_used_bytes", vdevice_index="1") == MIB
    assert not [k for k in found if k[0] == "hami_vgpu_memory_limit_bytes" and ("vdevice_index", "1") in k[1]]


def test_a_named_region_that_is_gone_is_reported_as_down_and_the_others_stay(tool, tmp_path):
    with Actor(tmp_path / "r", *STEPS):
        done = tool("metrics", tmp_path / "r", tmp_path / "gone")
    found = samples(done.stdout)
    assert done.returncode == 0
    assert value(found, "hami_vgpu_region_up", region=str(tmp_path / "gone")) == 0
    assert value(found, "hami_vgpu_memory_used_bytes", region=str(tmp_path / "r")) == GIB + MIB


def test_a_path_with_quotes_and_backslashes_is_escaped(tool, tmp_path):
    region = tmp_path / 'a"b\\c'
    with Actor(region, *STEPS):
        text = tool("metrics", region).stdout
    assert promtool(text).returncode == 0
    assert value(samples(text), "hami_vgpu_region_up", region=str(region)) == 1


def test_every_metric_of_the_table_has_a_type_and_a_unit_in_its_name(tool, tmp_path):
    rows = re.findall(r"^METRIC\(\w+, (\w+), (\w+),", (ROOT / "tools/amvgpu/metric.def").read_text(), re.M)
    with Actor(tmp_path / "r", *STEPS):
        text = tool("metrics", tmp_path / "r").stdout
    assert len(rows) == 10
    for name, kind in rows:
        assert f"# TYPE {name} {kind}\n" in text and f"# HELP {name} " in text
        assert (kind == "counter") == name.endswith("_total")
        assert "memory" not in name or name.endswith("_bytes")


def test_a_reader_of_the_textfile_never_sees_half_of_it(tool, tmp_path):
    file = tmp_path / "amvgpu.prom"
    with Actor(tmp_path / "r", *STEPS):
        whole = tool("metrics", tmp_path / "r").stdout
        assert tool("metrics", "--textfile", file, tmp_path / "r").returncode == 0
        writer = subprocess.Popen([tool.path, "metrics", "--textfile", file, "--every", "0.1", tmp_path / "r"], env=tool.environment)
        files, deadline = set(), time.monotonic() + 1.5
        while time.monotonic() < deadline:
            with open(file) as stream:
                seen = os.fstat(stream.fileno())
                files.add((seen.st_ino, seen.st_mtime_ns))  # an inode's number may be used again
                assert stream.read() == whole
        writer.terminate()
        writer.wait()
    assert len(files) > 3, "it was not replaced"
    assert file.stat().st_mode & 0o777 == 0o644
    assert [p for p in tmp_path.iterdir() if p.suffix == ".prom"] == [file]


def test_a_textfile_that_cannot_be_written_leaves_the_old_one_and_fails(tool, tmp_path):
    file = tmp_path / "no-such-folder" / "amvgpu.prom"
    with Actor(tmp_path / "r", *STEPS):
        done = tool("metrics", "--textfile", file, tmp_path / "r")
    assert done.returncode == 1 and "No such file" in done.stderr
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", full], check=True)
    try:
        (full / "amvgpu.prom").write_text("old\n")
        (full / "filler").write_bytes(b"x" * 4096)
        with Actor(tmp_path / "r", *STEPS):
            done = tool("metrics", "--textfile", full / "amvgpu.prom", tmp_path / "r")
        assert done.returncode == 1 and "No space" in done.stderr
        assert (full / "amvgpu.prom").read_text() == "old\n" and len(list(full.iterdir())) == 2
    finally:
        subprocess.run(["umount", full], check=True)


class Server:
    def __init__(self, tool, address, *regions):
        self.port = free_port()
        self.url = f"http://{address.replace('0.0.0.0', '127.0.0.1') or '127.0.0.1'}:{self.port}"
        self.process = subprocess.Popen([tool.path, "metrics", "--listen", f"{address}:{self.port}", *regions], env=tool.environment)

    def __enter__(self):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
                return self
            except (ConnectionError, urllib.error.URLError):
                time.sleep(0.05)
        raise AssertionError("it does not listen")

    def get(self, path, method="GET"):
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, method=method), timeout=5) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers, answer.read().decode()

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=10) == 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", ""])
def test_served_over_http_the_metrics_are_fresh_and_have_the_content_type_of_prometheus(tool, tmp_path, address):
    region = tmp_path / "r"
    with Actor(region, *STEPS), Server(tool, address, region) as server:
        status, headers, text = server.get("/metrics")
        assert status == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert promtool(text).returncode == 0
        assert value(samples(text), "hami_vgpu_memory_used_bytes") == GIB + MIB
        with Actor(region, *STEPS[:3]):
            assert value(samples(server.get("/metrics")[2]), "hami_vgpu_memory_used_bytes") == 2 * (GIB + MIB)


def test_other_paths_and_methods_are_refused(tool, tmp_path):
    with Server(tool, "127.0.0.1", tmp_path / "r") as server:
        assert server.get("/other")[0] == 404
        assert server.get("/metrics", "HEAD")[::2] == (200, "")
        status, headers, _ = server.get("/metrics", "DELETE")
        assert status == 405 and headers["Allow"] == "GET, HEAD"
        assert "/metrics" in server.get("/")[2]


def test_a_scrape_with_a_slow_client_beside_it_is_answered(tool, tmp_path):
    with Server(tool, "127.0.0.1", tmp_path / "r") as server, socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(b"GET /metr")
        assert server.get("/metrics")[0] == 200


@pytest.mark.parametrize("address", ["9401", "127.0.0.1:", "no.such.host.invalid:9401", "127.0.0.1:port"])
def test_an_address_that_makes_no_sense_is_an_error_of_usage(tool, address):
    done = tool("metrics", "--listen", address)
    assert done.returncode == 2 and "--listen" in done.stderr


def test_a_port_that_is_taken_is_an_error(tool):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = tool("metrics", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1 and "taken" in done.stderr

"""amvgpu top in a real terminal: tmux gives the keys and reads the screen."""
import pathlib
import subprocess
import sys
import time
import uuid

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "container"))
from tool import GIB, MIB, Actor, Tool, need  # noqa: E402

LIMIT, BOUND = f"limit=0:{4 * GIB}", "symbols=27:27"


class Terminal:
    """A tmux server of our own with one window."""

    def __init__(self, tool, *arguments, width=120, height=30, locale="C.UTF-8"):
        self.socket = f"amvgpu-{uuid.uuid4().hex}"
        self.environment = tool.environment | {"TERM": "screen-256color", "LC_ALL": locale}
        command = " ".join(f"'{a}'" for a in (tool.path, "top", "--delay", "0.1", *arguments))
        self.tmux("-u", "new-session", "-d", "-x", str(width), "-y", str(height), f"LC_ALL={locale} {command}; echo exit=$?; sleep 60")

    def tmux(self, *arguments):
        return subprocess.run([need("tmux", "tmux"), "-L", self.socket, "-f", "/dev/null", *arguments], env=self.environment,
                              capture_output=True, text=True, check=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def wait_for(self, wanted):
        """The first screen for which wanted (a text or a function) holds."""
        holds = wanted if callable(wanted) else lambda screen: wanted in screen
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            screen = self.screen()
            if holds(screen):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"never on the screen: {wanted}\n{screen}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], capture_output=True)


@pytest.fixture
def tool(tmp_path):
    return Tool(tmp_path / "runtime")


def test_devices_processes_bars_and_the_last_refusal_are_on_the_screen(tool, tmp_path):
    steps = [LIMIT, f"requested=0:{2 * GIB}", f"physical=0:{2 * GIB + 100 * MIB}", f"refuse=0:{3 * GIB}", "allocations=5:1", BOUND]
    with Actor(tmp_path / "r", *steps) as actor, Terminal(tool, tmp_path / "r") as terminal:
        screen = terminal.wait_for("last refusal")
        lines = screen.splitlines()
    device = next(line for line in lines if line.startswith("0 "))
    assert "4.0 GiB" in device and "100 MiB" in device and "█" * 12 in device and "52%" in device
    process = next(line for line in lines if line.startswith(str(actor.pid)))
    assert process.split()[:2] == [str(actor.pid), "slot_actor"] and "enforced" in process
    assert "hipMalloc of 3.0 GiB on device 0, 2.0 GiB of 4.0 GiB in use" in screen
    assert "q quit" in lines[-2]


def test_the_numbers_move_and_a_process_that_ends_leaves_the_screen(tool, tmp_path):
    with Actor(tmp_path / "r", LIMIT, BOUND), Terminal(tool, tmp_path / "r") as terminal:
        terminal.wait_for("1 processes")
        with Actor(tmp_path / "r", LIMIT, f"requested=0:{GIB}", BOUND) as second:
            assert " 25% " in terminal.wait_for(f"\n{second.pid} ")
        terminal.wait_for(lambda screen: f"\n{second.pid} " not in screen and " 0% " in screen)


def test_q_ends_it_with_0_and_the_screen_comes_back(tool, tmp_path):
    with Actor(tmp_path / "r", LIMIT, BOUND), Terminal(tool, tmp_path / "r") as terminal:
        terminal.wait_for("q quit")
        terminal.press("q")
        assert "q quit" not in terminal.wait_for("exit=0")


def test_ctrl_c_ends_it_and_leaves_the_terminal_sane(tool, tmp_path):
    with Actor(tmp_path / "r", LIMIT, BOUND), Terminal(tool, tmp_path / "r") as terminal:
        terminal.wait_for("q quit")
        terminal.press("C-c")
        terminal.wait_for(lambda screen: "exit=" in screen and "q quit" not in screen)


def test_the_arrow_keys_select_the_process_whose_details_are_shown(tool, tmp_path):
    with Actor(tmp_path / "r", LIMIT, f"requested=0:{2 * GIB}", BOUND) as large, Actor(tmp_path / "r", LIMIT, "symbols=3:4") as small, \
            Terminal(tool, tmp_path / "r") as terminal:
        terminal.wait_for(f"{large.pid} slot_actor: bound 27 of 27")
        terminal.press("Down")
        terminal.wait_for(f"{small.pid} slot_actor: bound 3 of 4")
        terminal.press("Down", "Down", "Up")
        terminal.wait_for(f"{large.pid} slot_actor: bound 27 of 27")


def test_o_changes_the_order(tool, tmp_path):
    with Actor(tmp_path / "r", LIMIT, BOUND) as first, Actor(tmp_path / "r", LIMIT, f"requested=0:{GIB}", BOUND) as second, \
            Terminal(tool, tmp_path / "r") as terminal:
        screen = terminal.wait_for("order: used")
        assert screen.index(f"\n{second.pid} ") < screen.index(f"\n{first.pid} ")
        terminal.press("o")
        screen = terminal.wait_for("order: pid")
        assert screen.index(f"\n{min(first.pid, second.pid)} ") < screen.index(f"\n{max(first.pid, second.pid)} ")


def test_tab_goes_to_the_next_slice(tool, tmp_path):
    with Actor(tmp_path / "a", LIMIT, BOUND), Actor(tmp_path / "b", LIMIT, BOUND), Terminal(tool, tmp_path / "a", tmp_path / "b") as terminal:
        terminal.wait_for(f"{tmp_path}/a  (1 of 2)")
        terminal.press("Tab")
        terminal.wait_for(f"{tmp_path}/b  (2 of 2)")
        terminal.press("Tab")
        terminal.wait_for(f"{tmp_path}/a  (1 of 2)")


@pytest.mark.parametrize("width, height", [(40, 8), (20, 4), (200, 60)])
def test_it_survives_any_size_of_the_terminal(tool, tmp_path, width, height):
    with Actor(tmp_path / "r", LIMIT, f"refuse=0:{5 * GIB}", BOUND), Terminal(tool, tmp_path / "r") as terminal:
        terminal.wait_for("q quit")
        terminal.tmux("resize-window", "-x", str(width), "-y", str(height))
        screen = terminal.wait_for(lambda screen: len(screen.splitlines()[-2:]) and "q quit" in screen)
        assert all(len(line) <= width for line in screen.splitlines())
        terminal.press("Down", "q")
        terminal.wait_for("exit=0")


def test_more_processes_than_lines_can_be_scrolled_through(tool, tmp_path):
    import contextlib
    with contextlib.ExitStack() as stack:
        actors = [stack.enter_context(Actor(tmp_path / "r", LIMIT, f"requested=0:{(20 - i) * MIB}", BOUND)) for i in range(20)]
        terminal = stack.enter_context(Terminal(tool, tmp_path / "r", height=16))
        screen = terminal.wait_for("20 processes")
        assert f"\n{actors[0].pid} " in screen and f"\n{actors[19].pid} " not in screen
        terminal.press(*["Down"] * 19)
        terminal.wait_for(lambda screen: f"\n{actors[19].pid} " in screen and f"\n{actors[0].pid} " not in screen)


def test_without_utf_8_the_bars_are_ascii(tool, tmp_path):
    with Actor(tmp_path / "r", LIMIT, f"requested=0:{2 * GIB}", BOUND), Terminal(tool, tmp_path / "r", locale="C") as terminal:
        screen = terminal.wait_for("50%")
    assert "############............" in screen


def test_without_a_region_it_waits_for_one(tool, tmp_path):
    with Terminal(tool, "--name", "later") as terminal:
        terminal.wait_for("no region")


def test_without_a_terminal_it_says_what_to_use_instead(tool, tmp_path):
    done = tool("top")
    assert done.returncode == 2 and "status --watch" in done.stderr

"""Programs people use to start others keep the limit, however the variables are lost on the way; see docs/children.md."""
import re
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "test" / "children"))
import launchers  # noqa: E402
import pods  # noqa: E402

PLACES = [(suite, setup) for suite in pods.SUITES for setup in launchers.SETUPS]


@pytest.fixture(scope="module", params=PLACES, ids=lambda place: "-".join(place).replace(" ", "_"))
def place(request):
    suite, setup = request.param
    with launchers.pod_of(suite, setup) as pod:
        yield pod, setup


@pytest.mark.slow
@pytest.mark.parametrize("launcher", launchers.LAUNCHERS)
@pytest.mark.xdist_group("children")
def test_the_limit_is_kept_or_the_hole_is_the_known_one(place, launcher):
    pod, setup = place
    wanted = "kept" if launchers.expected(setup, launcher) == "kept" else "lost"
    assert {way: launchers.outcome(pod, setup, launcher, way) for way in launchers.WAYS} == dict.fromkeys(launchers.WAYS, wanted)


def test_the_table_in_the_document_is_the_one_that_these_tests_expect():
    text = launchers.DOCUMENT.read_text()
    shown = text[text.index(launchers.BEGIN) + len(launchers.BEGIN):text.index(launchers.END)]
    seen = {(setup, launcher, way, suite): "kept" if launchers.expected(setup, launcher) == "kept" else "lost"
            for setup in launchers.SETUPS for launcher in launchers.LAUNCHERS for way in launchers.WAYS for suite in pods.SUITES}
    assert shown.strip() == launchers.table(seen).strip()


def test_every_hole_in_the_table_is_explained_in_the_document():
    text = launchers.DOCUMENT.read_text()
    for hole in {h for holes in launchers.HOLES.values() for h in holes.values()}:
        assert re.search(rf"^\*\*{re.escape(hole.removeprefix('hole: '))}\*\*", text, re.M)

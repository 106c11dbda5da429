"""Every row of the table on every runtime, unmodified, over the emulated driver; see test/real/matrix.py."""
import pathlib
import shutil
import sys
import tempfile

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "test" / "real"))
pytest.register_assert_rewrite("matrix", "matrix_rows")
import matrix  # noqa: E402
import matrix_page  # noqa: E402
import matrix_rows  # noqa: E402
from real_pod import RELEASES  # noqa: E402

machines = {}


def machine_of(release):
    """The worker's machine on that release; it is kept as long as nothing failed on it."""
    if release not in machines:
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"matrix-{release}-"))
        machines[release] = matrix.Machine(folder, release)
    return machines[release]


def discard(release):
    machine = machines.pop(release, None)
    if machine:
        machine.close()
        shutil.rmtree(machine.folder, ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def end_machines():
    yield
    for release in list(machines):
        discard(release)


def cases(kind):
    for release in RELEASES:
        for name, (row_kind, _) in matrix.table_rows().items():
            if row_kind in kind and matrix.has(release, name):
                yield pytest.param(release, name, id=f"{release}-{name}", marks=pytest.mark.xdist_group(f"real-{release}"))


def tried(release, measure):
    """Measures on a clean machine, and sees that it is clean afterwards."""
    try:
        machine = machine_of(release)
        result = measure(machine)
        if not machine.is_clean():
            discard(release)
            raise AssertionError("bytes are left in the requested book")
        if machine.is_worn():
            discard(release)
        return result
    except BaseException:
        discard(release)
        raise


@pytest.mark.parametrize("release, name", cases(("ALLOC",)))
def test_every_allocation_is_charged_refused_and_given_back_as_the_matrix_says(release, name):
    wrong = {}
    for claim in matrix.claims_about(name):
        try:
            mark = tried(release, lambda machine: matrix.measure(machine, name, claim))
        except AssertionError as error:
            mark = f"{error!s:.300}"
        if mark != matrix.expected(name, claim, release):
            wrong[claim] = mark
    assert not wrong


@pytest.mark.parametrize("release, name", cases(("FREE", "HAND")))
def test_every_other_row_does_what_the_matrix_says(release, name):
    wrong = {}
    for claim in matrix_rows.claims_about(name, release):
        try:
            mark = tried(release, claim.measure)
        except AssertionError as error:
            mark = f"{error!s:.300}"
        if mark != claim.expected(release):
            wrong[claim.text] = mark
    assert not wrong


def test_every_row_of_the_table_is_in_the_matrix():
    rows = matrix.table_rows()
    assert len(rows) > 40
    assert set(matrix.RECIPES) == {name for name, (kind, _) in rows.items() if kind == "ALLOC"}
    assert set(matrix_rows.CLAIMS) == {name for name, (kind, _) in rows.items() if kind in ("FREE", "HAND")}


def test_the_page_of_the_matrix_is_current():
    assert matrix_page.PAGE.read_text() == matrix_page.page(matrix_page.expected_marks()), \
        "run test/real/write_matrix --measure"


def test_every_exception_of_the_matrix_has_a_reason():
    for (name, claim, release), mark in matrix_page.expected_marks().items():
        assert mark == matrix.YES or len(matrix_page.reason(name, claim, release)) > 20

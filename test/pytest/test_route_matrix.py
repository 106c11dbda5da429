"""Whatever way a program finds a function of the runtime, it finds our wrapper; on four releases of glibc."""
import os
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "test" / "route"))
import routes  # noqa: E402

PRODUCT = Path(os.environ.get("AMVGPU_LIB", TOP / "build-hip" / "libamvgpu.so"))
CRASH = "killed by signal 11"


def holes_of_ld_so(suite, route):
    """glibc before 2.35 crashes in dlmopen(LM_ID_NEWLM) under any audit library (BZ 28062)."""
    return CRASH if suite == "bullseye" and "dlmopen" in route else "wrapped"


def symbind_cannot_see(suite, route):
    """ld.so asks la_symbind for PLT slots and dlsym, never for addresses in data; before 2.35 not even for
    PLT slots that are bound at load. A program at a fixed address has PLT slots for addresses."""
    if holes_of_ld_so(suite, route) == CRASH:
        return CRASH
    takes_address = "-fno-plt" in route or route == "non-PIE, static pointer" or (
        ("PIE, " in route and "non-PIE" not in route or "plugin" in route) and
        any(kind in route for kind in ("noplt", "table", "pointer", "local", "weak")))
    bound_at_load = suite == "bullseye" and (route == "LD_BIND_NOW" or "dlopen now, plugin" in route or
                                             "dlopen deepbind, plugin" in route)
    return "leaks" if takes_address or bound_at_load else "wrapped"


@pytest.fixture(scope="module", autouse=True)
def parts():
    routes.make_roots(list(routes.SUITES))
    routes.make_parts()


def show(capsys, title, suite, got):
    with capsys.disabled():
        print(f"\n{title}: {len(routes.rows())} functions\n{routes.table({suite: got})}")


def check_matrix(suite, expected, **how):
    got = routes.run_suite(suite, **how)
    assert got == {route.name: expected(suite, route.name) for route in routes.ROUTES}
    return got


@pytest.mark.parametrize("suite", routes.SUITES)
@pytest.mark.parametrize("forbid", [None, "in_place", "copy"],
                         ids=["as_is", "never_in_place", "never_a_copy"])
def test_every_function_is_wrapped_by_every_route(capsys, suite, forbid):
    got = check_matrix(suite, holes_of_ld_so, forbid=forbid)
    if not forbid:
        show(capsys, "src/loader", suite, got)


if PRODUCT.exists() or "AMVGPU_LIB" in os.environ:
    @pytest.mark.parametrize("suite", routes.SUITES)
    def test_every_function_is_wrapped_by_every_route_in_the_product(capsys, suite):
        show(capsys, PRODUCT.name, suite, check_matrix(suite, holes_of_ld_so, library=PRODUCT))


@pytest.mark.parametrize("suite", routes.SUITES)
def test_la_symbind_alone_misses_every_address_in_data(suite):
    check_matrix(suite, symbind_cannot_see, forbid="both")


def test_without_an_audit_library_every_route_reaches_the_runtime():
    check_matrix("bookworm", lambda *_: "leaks", own=None)


def test_on_glibc_2_31_dlmopen_crashes_even_under_an_audit_library_that_does_nothing():
    check_matrix("bullseye",
                 lambda suite, route: CRASH if "dlmopen" in route else "leaks", own="nothing.so")

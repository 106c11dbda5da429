"""docs/matrix.md: the page that shows the marks of the matrix."""
import matrix
import matrix_rows
from conftest import ROOT
from real_pod import RELEASES

PAGE = ROOT / "docs" / "matrix.md"
VERSIONS = {"5.2": "5.2.3", "5.7": "5.7.1", "6.4": "6.4.3", "7.2": "7.2.4"}


def measurements(release):
    """Every claim about a release: row, claim, what measures it."""
    for name, (kind, _) in matrix.table_rows().items():
        if not matrix.has(release, name):
            continue
        if kind == "ALLOC":
            for claim in matrix.claims_about(name):
                yield name, claim, lambda machine, name=name, claim=claim: matrix.measure(machine, name, claim)
        else:
            for claim in matrix_rows.claims_about(name, release):
                yield name, claim.text, claim.measure


def expected_marks():
    """The marks as the tables say them: (row, claim, release) -> mark."""
    marks = {}
    for release in RELEASES:
        for name, (kind, _) in matrix.table_rows().items():
            if not matrix.has(release, name):
                continue
            if kind == "ALLOC":
                for claim in matrix.claims_about(name):
                    marks[name, claim, release] = matrix.expected(name, claim, release)
            else:
                for claim in matrix_rows.claims_about(name, release):
                    marks[name, claim.text, release] = claim.expected(release)
    return marks


def reason(name, claim, release):
    if name in matrix.RECIPES:
        return matrix.UNLIKE[name, claim][release][1]
    (found,) = [c for c in matrix_rows.claims_about(name, release) if c.text == claim]
    return found.unlike[release][1]


class Notes:
    """Reasons, each numbered once."""

    def __init__(self):
        self.numbers = {}

    def number(self, text):
        return self.numbers.setdefault(text, len(self.numbers) + 1)


def cell(marks, notes, name, claim, releases):
    """The marks of some releases, those that agree together."""
    shown = {}
    for release in releases:
        mark = marks.get((name, claim, release))
        if mark is None:
            continue
        if mark != matrix.YES:
            mark = f"{mark} [{notes.number(reason(name, claim, release))}](#notes)"
        shown.setdefault(mark, []).append(release)
    if len(shown) == 1:
        return next(iter(shown))
    return ", ".join(f"{'/'.join(where)}: {mark}" for mark, where in shown.items()) or "–"


def allocation_table(marks, notes):
    claims = list(matrix.CLAIMS)
    lines = ["| | " + " | ".join(claims) + " |", "|---" * (len(claims) + 1) + "|"]
    for name in matrix.RECIPES:
        cells = [cell(marks, notes, name, claim, RELEASES) for claim in claims]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return lines


def other_table(marks, notes, kinds):
    lines = ["| | claim | " + " | ".join(VERSIONS.values()) + " |", "|---" * (len(VERSIONS) + 2) + "|"]
    for name, (kind, _) in matrix.table_rows().items():
        if kind not in kinds:
            continue
        for claim in matrix_rows.CLAIMS[name]:
            cells = [cell(marks, notes, name, claim.text, [release]) for release in RELEASES]
            lines.append(f"| `{name}` | {claim.text} | " + " | ".join(cells) + " |")
    return lines


HEAD = """# Every row of the table, on every runtime

Written by `test/real/write_matrix --measure`; do not edit. The rows are those of `src/hip/hip_api.def`; the runtimes are AMD's
own binaries, unmodified, from Debian (5.2.3, 5.7.1, 6.4.3, 7.2.4), over the emulated driver of `softgpu/kfd`, whose oracle knows
every byte that was given. `test/pytest/test_real_matrix.py` runs every mark of this page. What only hardware can show is in
[verified.md](verified.md).

✓: it is so. –: the release does not have the function. Anything else is what the release does instead, with a note. A mark without a
release holds for all that have the function.
"""


def page(marks):
    notes = Notes()
    lines = [HEAD, "## Allocations", ""]
    lines += [f"- **{name}**: {' '.join(claim.__doc__.split())}" for name, claim in matrix.CLAIMS.items()]
    lines += ["", "Each of them on a card of 16 GiB under a limit of 1 GiB, with a second process in the pod and a second "
              "pod on the card. After each, our", "physical book is the oracle's sum and below the limit.", ""]
    lines += allocation_table(marks, notes)
    lines += ["", "## Frees", ""] + other_table(marks, notes, ("FREE",))
    lines += ["", "## Everything else", ""] + other_table(marks, notes, ("HAND",))
    lines += ["", "## Notes", ""] + [f"{number}. {text}." for text, number in notes.numbers.items()]
    return "\n".join(lines) + "\n"

"""docs/accounting.md has the figures of the runtimes as they are."""
import re
import subprocess

from conftest import ROOT
from card import RELEASES


def test_the_page_has_a_table_for_every_runtime():
    text = (ROOT / "docs" / "accounting.md").read_text()
    (table,) = re.findall(r"<!-- measured -->\n(.*?)\n<!-- end -->", text, re.S)
    rows = table.splitlines()
    assert len(rows) > 15 and all(row.count("|") == 3 + len(RELEASES) for row in rows)


def test_the_figures_in_the_page_are_what_is_measured():
    done = subprocess.run([ROOT / "test" / "card" / "write_accounting", "--check"], text=True, capture_output=True, timeout=580)
    assert done.returncode == 0, f"run test/card/write_accounting\n{done.stdout}{done.stderr}"

"""The benchmarks against the official checker (a stand-in for it) and another checkout, and the slope of growth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Grow
from tools.bench import between, check, official

DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
STAND_IN = """
import sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with open(given["--csv"], "w") as table:
    table.write(given["--input"])
print(given["--version"])
"""


@pytest.mark.parametrize(
    "place", ["submission_checker/main.py", "submission_checker.py", "submission-checker.py"]
)
def test_official_checker_is_found_and_compared(tmp_path: Path, grow: Grow, place: str) -> None:
    script = tmp_path / "inference" / "tools" / "submission" / place
    script.parent.mkdir(parents=True)
    script.write_text(STAND_IN)
    command, folder = official.command_of(tmp_path / "inference")
    found = official.compared(grow(**DEMO).root, "demo", command, folder)
    assert list(found) == ["official", "cold", "warm"]
    assert 0 < found["official"] < found["cold"]


def test_checker_that_writes_nothing_is_no_yardstick(tmp_path: Path, grow: Grow) -> None:
    with pytest.raises(official.NotOfficial, match="found no submission checker"):
        official.command_of(tmp_path)
    script = tmp_path / "checker.py"
    script.write_text("raise SystemExit('no module named numpy')")
    command, folder = official.command_of(script)
    with pytest.raises(official.NotOfficial, match="no summary of demo: no module named numpy"):
        official.compared(grow(**DEMO).root, "demo", command, folder)


def test_slope_is_the_power_of_growth() -> None:
    assert check.slope([(1, 3), (2, 6), (16, 48)]) == pytest.approx(1)
    assert check.slope([(1, 1), (4, 16)]) == pytest.approx(2)


def test_reports_of_two_checkouts_are_compared(tmp_path: Path, grow: Grow) -> None:
    tree = grow(**DEMO).root
    assert between.differences(between.ROOT, tree, "check") == []
    (tmp_path / "assay").mkdir()
    (tmp_path / "assay" / "__init__.py").touch()
    (tmp_path / "assay" / "__main__.py").write_text("print('{}')")
    assert between.differences(tmp_path, tree, "check") == [
        "1 job",
        "2 jobs",
        "filling the cache",
        "from the cache",
    ]

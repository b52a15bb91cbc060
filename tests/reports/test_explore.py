"""The explorer: rows, page, export and pairing, over sample reports and over real rounds."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from assay.cli import main
from reports.diff import diff, to_text
from reports.explore import page
from reports.explore.export import to_csv, to_parquet
from reports.explore.rows import COLUMNS, Row, rows
from reports.pairing import renamed
from schemas.report import Limits, Metric, Report, encode
from tests.reports.samples import hostile, report, result, varied, whole_round
from tests.reports.test_browser import CHROMIUM, ENVIRONMENT

DOCS = Path(__file__).parents[2] / "docs" / "explorer.md"

H200 = {
    "accelerator_model_name": "NVIDIA H200-SXM-141GB",
    "accelerator_memory_capacity": "141 GB",
    "accelerators_per_node": "8",
    "number_of_nodes": "2",
    "host_processor_model_name": "Intel(R) Xeon(R) Platinum 8480+",
    "status": "Available",
    "framework": "TensorRT 10",
}


def one(**fields: Any) -> Row:
    (row,) = rows([report([result(**fields)], [])])
    return row


def test_a_row_per_accelerator() -> None:
    row = one(
        system_description=H200,
        weight_data_types="nvfp4, FP8 (KV cache)",
        metric=Metric("result_samples_per_second", 1600.0, "Samples/s"),
    )
    assert (row.accelerator, row.accelerators, row.nodes) == ("NVIDIA H200 SXM 141 GB", 16, 2)
    assert (row.rate, row.per_accelerator, row.higher_is_better) == (1600.0, 100.0, True)
    assert (row.precision, row.availability) == ("fp4+fp8", "available")


@pytest.mark.parametrize(
    ("unit", "rate"),
    [("Latency (ms)", 500.0), ("ms (90th percentile)", 500.0), ("Latency (s)", 0.5)],
)
def test_a_latency_is_an_inverse_rate(unit: str, rate: float) -> None:
    row = one(metric=Metric("latency", 2.0, unit))
    assert (row.rate, row.higher_is_better) == (rate, False)


@pytest.mark.parametrize(
    ("power", "watt", "joule"),
    [
        (Metric("power", 100.0, "Watts"), 10.0, None),
        (Metric("power", 500.0, "millijoules"), None, 2.0),
        (Metric("power", 0.0, "Watts"), None, None),
        (None, None, None),
    ],
)
def test_efficiency_only_from_measured_power(
    power: Metric | None, watt: float | None, joule: float | None
) -> None:
    row = one(metric=Metric("rate", 1000.0, "Samples/s"), power=power)
    assert (row.per_watt, row.per_joule) == (watt, joule)


def test_submitters_have_one_spelling() -> None:
    names = ["cTuning", "CTuning", "cTuning", "Oracle "]
    found = rows(
        [report([result(submitter=name, system=f"s{n}") for n, name in enumerate(names)], [])]
    )
    assert [row.submitter for row in found] == ["cTuning", "cTuning", "cTuning", "Oracle "]


def test_other_limits_are_not_comparable() -> None:
    a, b = one(limits=Limits(ttft_ms=2000.0)), one(limits=Limits(ttft_ms=450.0))
    assert a.comparable != b.comparable


def unpacked(html: str) -> dict[str, Any]:
    match = re.search(r'id="data">([^<]*)<', html)
    assert match is not None
    loaded: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(match[1])))
    return loaded


def test_the_page_holds_every_row() -> None:
    found = rows([varied()])
    data = unpacked(page.render(found))
    assert data["count"] == len(found) and set(data["columns"]) == set(COLUMNS)
    column = data["columns"]["system"]
    assert [column["values"][at] for at in column["at"]] == [row.system for row in found]
    assert data["columns"]["metric"] == [row.metric for row in found]


def test_hostile_texts_stay_data() -> None:
    text = "</script><img src=x onerror=alert(1)>\x1b[31m"
    html = page.render(rows([hostile(text)]), {"v6.0": "javascript:alert(1)"})
    assert "<img" not in html and html.count("</script>") == 2 and "\x1b" not in html
    assert unpacked(html)["links"] == {}


def test_csv_reads_back() -> None:
    found = rows([varied()])
    table = list(csv.DictReader(io.StringIO(to_csv(found))))
    assert [line["path"] for line in table] == [row.path for row in found]
    assert [float(line["metric"]) if line["metric"] else None for line in table] == [
        row.metric for row in found
    ]
    assert "'=cmd" in to_csv(rows([hostile("=cmd|' /C calc'!A0")]))


def test_documented_columns_are_the_columns() -> None:
    table = DOCS.read_text("utf-8").split("## Columns")[1].split("## Five")[0]
    named = [
        name
        for line in table.splitlines()
        for name in re.findall(r"`(\w+)`", line.split("|")[1] if "|" in line else "")
    ]
    assert named and set(named) == set(COLUMNS)


def test_documented_queries_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb (the dev extra)")
    pytest.importorskip("pyarrow", reason="needs pyarrow (the parquet extra)")
    (tmp_path / "results.parquet").write_bytes(to_parquet(rows([varied()])))
    monkeypatch.chdir(tmp_path)
    queries = re.findall(r"```sql\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert len(queries) == 5
    for query in queries:
        duckdb.sql(query).fetchall()


def renamed_pair(old_name: str, new_name: str, **changes: Any) -> tuple[Report, Report]:
    def of(name: str, described: dict[str, Any]) -> Report:
        return report([result(system=name, system_description=described)], [])

    return of(old_name, H200), of(new_name, {**H200, **changes})


def test_a_renamed_system_is_paired() -> None:
    old, new = renamed_pair("H200x16", "h200_16_v2")
    (pair,) = renamed(old, new)
    assert (pair.old, pair.new, pair.shared) == ("H200x16", "h200_16_v2", 1)
    changes = diff(old, new)
    assert changes.results_new == [] and changes.results_gone == []
    assert "h200_16_v2" in to_text(changes)


def test_another_count_is_another_system() -> None:
    old, new = renamed_pair("H200x16", "H200x8", number_of_nodes="1")
    assert renamed(old, new) == []
    assert len(diff(old, new).results_new) == 1


def test_faster_and_slower() -> None:
    def of(value: float, unit: str) -> Report:
        return report([result(metric=Metric("m", value, unit))], [])

    assert "Faster (1)" in to_text(diff(of(10.0, "Samples/s"), of(12.0, "Samples/s")))
    assert "Slower (1)" in to_text(diff(of(10.0, "Latency (ms)"), of(12.0, "Latency (ms)")))


def test_commands(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    saved = tmp_path / "a.json"
    saved.write_bytes(encode(varied()))
    target = tmp_path / "explorer.html"
    assert main(["explore", str(saved), "--output", str(target)]) == 0
    assert unpacked(target.read_text("utf-8"))["count"] == len(varied().results)
    assert main(["export", str(saved)]) == 0
    assert capsysbinary.readouterr().out.startswith(b"round,report,division,")
    assert main(["explore", str(saved), "--repo-url", "v6.0=file:///etc"]) == 2
    assert main(["explore", str(tmp_path / "absent.json")]) == 2


def drawn(folder: Path, page_file: Path, view: str) -> str:
    """The page's elements once a view is drawn, its own policy in force."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-sync"]
    command += ["--disable-component-update", f"--user-data-dir={folder / 'profile'}"]
    command += ["--virtual-time-budget=20000", "--dump-dom", f"{page_file.as_uri()}#{view}"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=ENVIRONMENT
    )
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")
def test_ten_thousand_rows_stay_small_and_every_view_draws(tmp_path: Path) -> None:
    found = rows([whole_round(2000)]) * 6
    html = page.render(found)
    assert len(html) < 8_000_000
    file = tmp_path / "explorer.html"
    file.write_text(html, encoding="utf-8")
    counted = f">{len(found):,} of {len(found):,} results<"
    for view, mark in [
        ("rank", "<rect class="),
        ("progress", "<circle class="),
        ("compare", "Configuration"),
        ("plot", "<circle class="),
        ("table", "Page 1 of"),
    ]:
        dom = drawn(tmp_path, file, f"view={view}&status=&division=")
        assert counted in dom and mark in dom, (view, dom[-3000:])

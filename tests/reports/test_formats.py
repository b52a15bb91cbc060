"""What each format promises to those who read it with a program."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import reports
from reports import arrange, diff, figures, links, to_csv, to_terminal
from reports.since import compared
from schemas.report import AccuracyScore, Finding, Metric, Report, RuleFacts, Subject
from tests.reports import samples

CONTRACT_COLUMNS = [
    "Organization", "Availability", "Division", "SystemType", "SystemName", "Platform", "Model",
    "MlperfModel", "Scenario", "Result", "Accuracy", "number_of_nodes",
    "host_processor_model_name", "host_processors_per_node", "host_processor_core_count",
    "accelerator_model_name", "accelerators_per_node", "total_accelerators", "Location",
    "framework", "operating_system", "notes", "compliance", "errors", "version", "inferred",
    "has_power", "Units", "weight_data_types", "design_power_watts", "PrivateID",
]  # fmt: skip


def text_of(report: Report, name: str, **options: Any) -> str:
    rendered = reports.render(report, name, **options)
    return rendered.decode("utf-8") if isinstance(rendered, bytes) else rendered


# The door


def test_import_is_cheap() -> None:
    code = (
        "import sys, reports; "
        "heavy = {'rich', 'jinja2', 'xlsxwriter', 'msgspec'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(reports.ReportError, match=r"'pdf'.*terminal, json, csv.*github"):
        reports.render(samples.varied(), "pdf")


def test_missing_xlsxwriter_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(reports.ReportError, match=r'pip install "assay\[xlsx\]"'):
        reports.render(samples.varied(), "xlsx")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.json", "json"),
        ("x/b.CSV", "csv"),
        ("c.html", "html"),
        ("d.md", "markdown"),
        ("e.sarif", "sarif"),
        ("f.xml", "junit"),
        ("g.xlsx", "xlsx"),
    ],
)
def test_format_from_suffix(path: str, name: str) -> None:
    assert reports.format_from_suffix(path) == name
    assert reports.format_from_suffix(Path(path)) == name


@pytest.mark.parametrize("path", ["report", "a.pdf", ".json.bak"])
def test_unknown_suffix(path: str) -> None:
    with pytest.raises(reports.ReportError, match="names no format"):
        reports.format_from_suffix(path)


# Numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (107317.8, "107,317.8"),
        (785522.0, "785,522"),
        (0.0181337, "0.0181337"),
        (843.374268, "843.374"),
        (0.0, "0"),
        (-3.5, "-3.5"),
        (1e20, "1e+20"),
        (float("nan"), "NaN"),
        (float("inf"), "infinite"),
        (float("-inf"), "-infinite"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert figures.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12.0, "12 ns"),
        (1500.0, "1.5 µs"),
        (325949172.0, "325.9 ms"),
        (118635390649.0, "118.6 s"),
        (123456e9, "123,456 s"),
    ],
)
def test_nanoseconds(value: float, text: str) -> None:
    assert figures.nanoseconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(61.25, "61.2 s"), (600.0, "10 min"), (612.4, "10 min 12 s"), (9000, "2 h 30 min")],
)
def test_seconds(value: float, text: str) -> None:
    assert figures.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "number"),
    [(8, 8), ("8", 8), (" 8 ", 8), ("", None), ("N/A", None), (None, None), (True, None),
     ("2 (big); 4 (LITTLE)", None), ("1e999", None), (float("nan"), None), ([8], None)],
)  # fmt: skip
def test_as_number(value: Any, number: float | None) -> None:
    assert figures.as_number(value) == number


def test_seeds_have_no_separators() -> None:
    assert figures.shown(1780908523862526354) == "1780908523862526354"
    assert figures.shown(270336) == "270,336"


# csv


def rows(report: Report) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text_of(report, "csv"), newline="")))


def test_csv_columns_are_the_official_ones() -> None:
    assert list(to_csv.COLUMNS) == CONTRACT_COLUMNS
    assert text_of(samples.varied(), "csv").splitlines()[0] == ",".join(
        f'"{column}"' for column in CONTRACT_COLUMNS
    )


def test_csv_has_each_valid_result_and_its_power() -> None:
    made = rows(samples.varied())
    assert [(r["Scenario"], r["Units"], r["has_power"]) for r in made] == [
        ("Server", "Tokens/s", "False"),
        ("Offline", "Tokens/s", "True"),
        ("Offline", "Watts", "True"),
        ("singlestream", "Latency (ms)", "True"),
        ("singlestream", "millijoules", "True"),
    ]
    assert made[0]["Location"].endswith("/llama2-70b-99/Server/performance/run_1")
    assert made[0]["notes"] == '19" rack, 1100 W'
    assert made[0]["inferred"] == "0"
    assert made[3]["inferred"] == "1"
    assert made[0]["Result"] == "107317.8"
    assert made[1]["Result"] == "1042110.0"


def test_csv_accuracy_text() -> None:
    scores = [
        AccuracyScore("ROUGE1", 44.5439),
        AccuracyScore("GEN_LEN", 8178793.0),
        AccuracyScore("TOKENS_PER_SAMPLE", 283.0),
    ]
    assert to_csv.accuracy_text(scores) == (
        "ROUGE1: 44.5439  GEN_LEN: 8178793  TOKENS_PER_SAMPLE: 283.0"
    )


def test_csv_total_accelerators_tolerates_text() -> None:
    assert [r["total_accelerators"] for r in rows(samples.varied())] == ["8", "8", "8", "", ""]


def test_csv_counts_errors_of_the_result() -> None:
    one = samples.result()
    subject = Subject("closed", "Example", "DX-8x270", "llama2-70b-99", "server")
    findings = [Finding("P1", "p", "error", "m", "x", subject=subject)] * 2
    assert [r["errors"] for r in rows(samples.report([one], findings))] == ["2"]


# xlsx


def workbook(report: Report, **options: Any) -> Any:
    openpyxl = pytest.importorskip("openpyxl")
    made = reports.render(report, "xlsx", **options)
    assert isinstance(made, bytes)
    return openpyxl.load_workbook(io.BytesIO(made))


def values(book: Any) -> dict[tuple[str, str, str, str, str], float]:
    """Every result of a workbook, by sheet, unique id, model, scenario and unit."""
    found = {}
    for sheet in (sheet for sheet in book if " - " in sheet.title):
        table = list(sheet.iter_rows(values_only=True))
        heads = list(table[3])
        start = heads.index("Code") + 1
        models, scenarios = list(table[1]), list(table[2])
        for level in (models, scenarios):  # merged cells hold their text in the first one only
            for at in range(start + 1, len(level)):
                level[at] = level[at] or level[at - 1]
        for row in table[4:]:
            for at in range(start, len(heads)):
                if row[at] is not None:
                    key = (sheet.title, row[1], models[at], scenarios[at], heads[at])
                    assert key not in found
                    found[key] = row[at]
    return found


def test_workbook_reads_back_as_the_csv() -> None:
    report = samples.whole_round(300)
    found = values(workbook(report))
    written = sorted(float(r["Result"]) for r in rows(report))
    # An .xlsx holds sixteen digits.
    assert sorted(found.values()) == pytest.approx(written, rel=1e-15)


def test_workbook_sheets_and_power() -> None:
    book = workbook(samples.varied())
    assert book.sheetnames == [
        "overview",
        "fix first",
        "invalid results",
        "datacenter - closed",
        "datacenter - closed - power",
        "edge - closed",
        "edge - closed - power",
        "findings",
    ]
    unique = "datacenter/closed/Example/DX-8x270"
    found = values(book)
    column = ("llama2-70b-99", "Offline")
    assert found["datacenter - closed", unique, *column, "Tokens/s"] == 1042110
    assert found["datacenter - closed - power", unique, *column, "Watts"] == 5321.25
    assert book["edge - closed"].column_dimensions["B"].hidden


def test_workbook_lists_every_finding_the_worst_first() -> None:
    report = samples.varied()
    head, *found = workbook(report)["findings"].iter_rows(values_only=True)
    assert head[:4] == ("Severity", "Rule", "Name", "Submitter")
    order = ["error", "warning", "note"]
    # What is waived comes last.
    worst = sorted(report.findings, key=lambda f: (f.waived is not None, order.index(f.severity)))
    assert [row[0] for row in found] == [finding.severity for finding in worst]
    messages = {row[head.index("Message")] for row in found}
    assert {
        f.message for f in report.findings if "\n" not in f.message and f.message[:1].isalpha()
    } <= messages
    final = workbook(report, findings=False).sheetnames
    assert [name for name in final if " - " not in name] == []


def test_workbook_system_of_both_categories_is_in_both() -> None:
    """Each sheet with the scenarios of its category only."""
    results = [
        samples.result(
            benchmark="retinanet", directory="retinanet", scenario=name, category="datacenter,edge"
        )
        for name in ("Offline", "Server", "SingleStream", "MultiStream")
    ]
    book = workbook(samples.report(results, [], round="v5.1"))
    assert book.sheetnames == ["overview", "datacenter - closed", "edge - closed"]
    found = {(sheet, scenario) for sheet, _, _, scenario, _ in values(book)}
    assert found == {
        ("datacenter - closed", "Offline"),
        ("datacenter - closed", "Server"),
        ("edge - closed", "Offline"),
        ("edge - closed", "SingleStream"),
        ("edge - closed", "MultiStream"),
    }
    # Of a round that is not known, both.
    other = workbook(samples.report(results[1:2], [], round="v99"))
    assert other.sheetnames == ["overview", "datacenter - closed", "edge - closed"]


def test_workbook_open_division_has_a_row_per_model() -> None:
    made = [samples.result(division="open", directory=name) for name in ("mine", "other")]
    sheet = workbook(samples.report(made, []))["datacenter - open"]
    heads = [cell.value for cell in sheet[4]]
    column = heads.index("UsedModel")
    assert [sheet.cell(row, column + 1).value for row in (5, 6)] == ["mine", "other"]


def test_workbook_refuses_duplicates() -> None:
    made = [samples.result(directory=name) for name in ("llama2-70b-99", "llama2_70b")]
    with pytest.raises(reports.ReportError, match=r"llama2-70b-99/Server and .*llama2_70b/Server"):
        reports.render(samples.report(made, []), "xlsx")


def test_workbook_of_nothing() -> None:
    assert workbook(samples.report([], [])).sheetnames == ["overview", "no valid result"]


def test_workbook_ids_are_stable(tmp_path: Path) -> None:
    ids = tmp_path / "ids.json"

    def identify(report: Report) -> dict[str, str]:
        found = {}
        for sheet in (sheet for sheet in workbook(report, ids_file=ids) if " - " in sheet.title):
            for row in sheet.iter_rows(min_row=5, values_only=True):
                found[row[1]] = row[0]
        return found

    second = samples.result(submitter="Bravo")
    first = samples.result(submitter="Alpha")
    before = identify(samples.report([second], []))
    assert before == {"datacenter/closed/Bravo/DX-8x270": "6.0-0001"}
    after = identify(samples.report([first, second], []))
    assert after == before | {"datacenter/closed/Alpha/DX-8x270": "6.0-0002"}
    assert json.loads(ids.read_text()) == {
        "datacenter/closed/Bravo/DX-8x270": 1,
        "datacenter/closed/Alpha/DX-8x270": 2,
    }
    assert [file.name for file in tmp_path.iterdir()] == ["ids.json"]


@pytest.mark.parametrize("text", ["", "[]", '{"a": "1"}', '{"a": 1, "b": 1}'])
def test_workbook_refuses_a_damaged_ids_file(tmp_path: Path, text: str) -> None:
    ids = tmp_path / "ids.json"
    ids.write_text(text)
    with pytest.raises(reports.ReportError, match="ids file"):
        reports.render(samples.varied(), "xlsx", ids_file=ids)
    assert ids.read_text() == text


def test_workbook_links_only_where_asked() -> None:
    book = workbook(samples.varied(), repository="https://github.com/x/y/tree/main")
    links = [
        c.hyperlink.target
        for row in book["datacenter - closed"].iter_rows()
        for c in row
        if c.hyperlink
    ]
    assert links == [
        "https://github.com/x/y/tree/main/closed/Example/results/DX-8x270",
        "https://github.com/x/y/tree/main/closed/Example",
    ]
    with pytest.raises(reports.ReportError, match="https"):
        reports.render(samples.varied(), "xlsx", repository="javascript:alert(1)")


# sarif


# The parts of SARIF 2.1.0 that are written, as its specification states them (the section in each
# comment). Nothing else may be there.
TEXT = {
    "type": "object",
    "required": ["text"],
    "additionalProperties": False,
    "properties": {"text": {"type": "string", "minLength": 1}},
}  # 3.11, 3.12
MULTIFORMAT = {**TEXT, "properties": {**TEXT["properties"], "markdown": {"type": "string"}}}  # type: ignore[dict-item]
LEVEL = {"enum": ["none", "note", "warning", "error"]}
SARIF = {
    "type": "object",  # 3.13
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
    },
    "$defs": {
        "run": {  # 3.14
            "type": "object",
            "required": ["tool", "results"],
            "additionalProperties": False,
            "properties": {
                "tool": {
                    "type": "object",  # 3.18
                    "required": ["driver"],
                    "additionalProperties": False,
                    "properties": {"driver": {"$ref": "#/$defs/component"}},
                },
                "automationDetails": {
                    "type": "object",  # 3.17
                    "additionalProperties": False,
                    "properties": {"id": {"type": "string"}, "description": TEXT},
                },
                "invocations": {"type": "array", "items": {
                    "type": "object",  # 3.20
                    "required": ["executionSuccessful"],
                    "additionalProperties": False,
                    "properties": {
                        "executionSuccessful": {"type": "boolean"},
                        "toolExecutionNotifications": {"type": "array", "items": {
                            "type": "object",  # 3.58
                            "required": ["message"],
                            "additionalProperties": False,
                            "properties": {"level": LEVEL, "message": TEXT},
                        }},
                    },
                }},
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
                "properties": {"type": "object"},
            },
        },
        "component": {  # 3.19
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string"},
                "version": {"type": "string"},
                "rules": {"type": "array", "uniqueItems": True, "items": {
                    "type": "object",  # 3.49
                    "required": ["id"],
                    "additionalProperties": False,
                    "properties": {
                        "id": {"type": "string"},
                        "name": {"type": "string"},
                        "shortDescription": TEXT,
                        "fullDescription": TEXT,
                        "help": MULTIFORMAT,
                        "helpUri": {"type": "string", "format": "uri"},
                        "defaultConfiguration": {
                            "type": "object", "additionalProperties": False,
                            "properties": {"level": LEVEL},
                        },
                        "properties": {"type": "object", "properties": {
                            "tags": {"type": "array", "uniqueItems": True,
                                     "items": {"type": "string"}},
                        }},
                    },
                }},
            },
        },
        "result": {  # 3.27
            "type": "object",
            "required": ["message"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": LEVEL,
                "message": TEXT,
                "locations": {"type": "array", "minItems": 1, "items": {
                    "type": "object",  # 3.28
                    "additionalProperties": False,
                    "properties": {
                        "physicalLocation": {
                            "type": "object",  # 3.29
                            "required": ["artifactLocation"],
                            "additionalProperties": False,
                            "properties": {
                                "artifactLocation": {
                                    "type": "object",  # 3.4
                                    "additionalProperties": False,
                                    "properties": {"uri": {
                                        "type": "string", "format": "uri-reference"}},
                                },
                                "region": {
                                    "type": "object",  # 3.30
                                    "additionalProperties": False,
                                    "properties": {"startLine": {"type": "integer", "minimum": 1}},
                                },
                            },
                        },
                        "logicalLocations": {"type": "array", "uniqueItems": True, "items": {
                            "type": "object",  # 3.33
                            "additionalProperties": False,
                            "properties": {"fullyQualifiedName": {"type": "string"}},
                        }},
                    },
                }},
                "partialFingerprints": {
                    "type": "object", "additionalProperties": {"type": "string"}},
                "baselineState": {"enum": ["new", "unchanged", "updated", "absent"]},
                "hostedViewerUri": {"type": "string", "format": "uri"},
                "suppressions": {"type": "array", "uniqueItems": True, "items": {
                    "type": "object",  # 3.35
                    "required": ["kind"],
                    "additionalProperties": False,
                    "properties": {
                        "kind": {"enum": ["inSource", "external"]},
                        "status": {"enum": ["accepted", "underReview", "rejected"]},
                        "justification": {"type": "string"},
                    },
                }},
            },
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("index", range(-1, len(samples.HOSTILE)))
def test_sarif_is_valid(index: int) -> None:
    report = samples.varied() if index < 0 else samples.hostile(samples.HOSTILE[index])
    address = "https://example.org/tree"
    report = compared("old.json", samples.later(), report)
    document = json.loads(text_of(report, "sarif", repository=address))
    jsonschema.Draft202012Validator(SARIF).validate(document)
    run = document["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        if result["baselineState"] != "absent":
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    prints = [result["partialFingerprints"]["assayFinding/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)


def test_sarif_suppresses_what_is_waived() -> None:
    results = json.loads(text_of(samples.varied(), "sarif"))["runs"][0]["results"]
    suppressed = [r for r in results if r.get("suppressions")]
    assert [r["ruleId"] for r in suppressed] == ["S003"]
    assert "agreed in the working group" in suppressed[0]["suppressions"][0]["justification"]


def test_sarif_prefix_and_odd_paths() -> None:
    findings = [
        Finding("S1", "s", "error", "m", "closed/a b:c/ü#?.txt", 0),
        Finding("S1", "s", "error", "m"),
    ]
    made = json.loads(text_of(samples.report([], findings), "sarif", prefix="sub/"))
    uris = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in made["runs"][0]["results"]
    ]
    assert uris == ["sub/closed/a%20b%3Ac/%C3%BC%23%3F.txt", "sub"]


def test_sarif_links_to_the_policy_and_to_the_file() -> None:
    finding = Finding("S1", "s", "error", "m", "closed/a b.txt", 7)
    facts = RuleFacts("S1", "s", "files", "error", "sum", "why", "*fix*", "submission_rules.adoc")
    report = samples.report([], [finding, Finding("S1", "s", "error", "m")], rules=[facts])
    address = "https://github.com/o/n/blob/main"
    (run,) = json.loads(text_of(report, "sarif", repository=address, prefix="sub"))["runs"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["helpUri"] == links.POLICIES["submission_rules.adoc"]
    assert r"**Fix:** \*fix\*" in rule["help"]["markdown"]
    assert run["automationDetails"]["id"] == "assay/v6.0/sub/"
    first, second = run["results"]
    assert first["hostedViewerUri"] == f"{address}/closed/a%20b.txt#L7"
    assert "hostedViewerUri" not in second
    assert second["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_sarif_fingerprint_does_not_move_with_the_line() -> None:
    def prints(line: int) -> str:
        report = samples.report([], [Finding("S1", "s", "error", f"at {line}", "a", line)])
        result = json.loads(text_of(report, "sarif"))["runs"][0]["results"][0]
        return str(result["partialFingerprints"])

    assert prints(3) == prints(30)


# junit


def test_junit_counts_agree() -> None:
    root = ET.fromstring(text_of(samples.varied(), "junit"))
    suites = root.findall("testsuite")
    for suite in suites:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        failed = [case for case in cases if case.find("failure") is not None]
        assert int(suite.get("failures", "")) == len(failed)
    assert int(root.get("tests", "")) == sum(int(suite.get("tests", "")) for suite in suites)
    assert int(root.get("failures", "")) == 2
    names = [suite.get("name") for suite in suites]
    assert names[-1] == "tree"
    assert len(set(names)) == len(names)


def test_junit_waived_errors_do_not_fail() -> None:
    root = ET.fromstring(text_of(samples.varied(), "junit"))
    case = root.find(".//testcase[@name='S003 large-file']")
    assert case is not None
    assert case.find("failure") is None
    assert "waived error S003" in (case.findtext("system-out") or "")


# markdown and github


def test_markdown_of_a_round_fits_a_comment() -> None:
    made = text_of(samples.whole_round(), "markdown")
    assert len(made) <= 65_000
    assert re.search(r"_[\d,]+ more lines left out", made)
    assert made.count("<details>") == made.count("</details>")


@pytest.mark.parametrize("limit", [300, 1000, 3000, 10_000])
def test_markdown_keeps_any_limit(limit: int) -> None:
    made = text_of(samples.varied(), "markdown", limit=limit)
    assert len(made) <= limit
    assert made.count("<details>") == made.count("</details>")


def test_github_caps_and_counts() -> None:
    lines = text_of(samples.varied(), "github").splitlines()
    assert sum(line.startswith("::error file=") for line in lines) == 10
    assert lines[0].startswith("::error file=closed/Example/results/DX-8x270/")
    assert any(line.startswith("assay: 3 more errors") for line in lines)
    assert not any("S003" in line for line in lines)


def test_github_escapes() -> None:
    finding = Finding("S1", "a,b:c", "warning", "50%\nnext", "x,y:z", 3, fix="do")
    line = text_of(samples.report([], [finding]), "github", prefix="sub").splitlines()[0]
    assert line == (
        "::warning file=sub/x%2Cy%3Az,line=3,title=S1 a%2Cb%3Ac::50%25%0Anext%0AFix: do"
    )


# terminal


class _Stream(io.StringIO):
    def __init__(self, terminal: bool, encoding: str) -> None:
        super().__init__()
        self._terminal = terminal
        self._encoding = encoding

    def isatty(self) -> bool:
        return self._terminal

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


@pytest.mark.parametrize("terminal", [True, False])
def test_terminal_colour_follows_the_stream(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = _Stream(terminal, "utf-8")
    to_terminal.write(samples.varied(), stream)
    assert ("\x1b[" in stream.getvalue()) == terminal


def test_terminal_obeys_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = _Stream(True, "utf-8")
    to_terminal.write(samples.varied(), stream)
    assert "\x1b" not in stream.getvalue()


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_terminal_of_a_narrow_encoding(encoding: str) -> None:
    stream = _Stream(False, encoding)
    to_terminal.write(samples.varied(), stream)
    stream.getvalue().encode(encoding)
    assert ">= 43.9869" in stream.getvalue()


def test_terminal_quiet_is_one_line() -> None:
    made = text_of(samples.varied(), "terminal", quiet=True)
    assert made.count("\n") == 1
    assert "3 of 5 results valid; 13 errors" in made


def test_terminal_counts_what_it_does_not_show() -> None:
    assert "and 2 more places (--verbose" in text_of(samples.varied(), "terminal")
    assert "more place" not in text_of(samples.varied(), "terminal", verbose=True)


@pytest.mark.parametrize("width", [60, 77, 100, 133, 200])
def test_terminal_width(width: int) -> None:
    made = text_of(samples.varied(), "terminal", width=width)
    assert max(map(len, made.splitlines())) <= width


def test_last_line_sums_up() -> None:
    assert text_of(samples.varied(), "terminal", width=200).splitlines()[-1] == (
        "SUMMARY: submission has errors: 3 of 5 results valid; "
        "13 errors, 2 warnings, 1 note, 1 waived"
    )
    fine = samples.report([samples.result()], [])
    assert "SUMMARY: submission looks OK" in text_of(fine, "terminal")
    assert "SUMMARY: nothing was checked" in text_of(samples.report([], []), "terminal")


# html


def test_html_asks_nothing_of_the_network() -> None:
    made = text_of(samples.varied(), "html")
    assert not re.search(r"\ssrc\s*=|url\(|@import", made)
    outside = set(re.findall(r'href="(?!#)([^"]*)"', made))
    # A link is followed only when a reader clicks it.
    assert outside == {
        links.POLICIES["inference_rules.adoc"],
        links.POLICIES["submission_rules.adoc"],
    }
    assert not re.search(r"https?://", re.sub(r'href="[^"]*"', "", made))
    assert "default-src 'none'" in made


def test_html_policy_allows_exactly_its_own_code() -> None:
    import base64
    import hashlib

    made = text_of(samples.varied(), "html")
    for tag in ("style", "script"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", made, re.DOTALL)
        assert inside
        digest = hashlib.sha256(inside.group(1).encode("utf-8")).digest()
        assert f"{tag}-src 'sha256-{base64.b64encode(digest).decode('ascii')}'" in made
    assert not re.search(r"\sstyle=", made)


def test_html_pictures_have_words() -> None:
    """A picture is named, or hidden where the table beside it has its numbers."""
    made = text_of(samples.varied(), "html")
    for picture in re.findall(r"<svg[^>]*>", made):
        assert "aria-label=" in picture or 'aria-hidden="true"' in picture
    assert '<td class="n">44.856<td>≥\u00a043.9869<td class="n">44.4312' in made
    assert '<td class="n">471.9 ms' in made and "<td>2 s at p99" in made
    assert "llama2-70b-99, ROUGE1: 3 results, nearest closed / Example" in made


def test_html_links_lead_somewhere() -> None:
    made = text_of(samples.varied(), "html")
    anchors = re.findall(r'\sid="([^"]+)"', made)
    assert len(anchors) == len(set(anchors))
    assert {a.split("?")[0] for a in re.findall(r'href="#([^"]+)"', made)} <= set(anchors)


def test_html_anchors_do_not_depend_on_the_order() -> None:
    """A link into one report holds in the next, which has more results and findings."""
    small = samples.report([samples.result()], [Finding("S1", "s", "error", "m", "a b/c")])
    large = samples.report(
        [samples.result(submitter="Another"), samples.result()],
        [Finding("S0", "r", "error", "m", "a"), Finding("S1", "s", "error", "m", "a b/c")],
    )
    first, second = (set(re.findall(r'\sid="([^"]+)"', text_of(r, "html"))) for r in (small, large))
    assert first <= second
    assert "r/closed/Example/DX-8x270/llama2-70b-99/Server" in first
    assert links.anchor("S1", "a b/c") in first and " " not in links.anchor("S1", "a b/c")


def test_html_of_a_whole_round_stays_usable() -> None:
    start = time.process_time()
    made = text_of(samples.whole_round(2000), "html")
    assert time.process_time() - start < 15
    assert len(made.encode("utf-8")) < 6_000_000
    assert len(re.findall(r'<details class="result', made)) == 2000


def test_html_packs_what_a_large_report_shows_of_valid_results() -> None:
    """Invalid results are there for readers without JavaScript; the others are unpacked."""
    import base64
    import gzip

    report = samples.whole_round(340)
    made = text_of(report, "html")
    packed = re.search(r'<script type="application/octet-stream" id="packed">(.*?)</script>', made)
    assert packed
    bodies = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    numbers = [int(n) for n in re.findall(r'<details class="result" [^>]*data-n="(\d+)"', made)]
    assert numbers == list(range(len(bodies))) and len(bodies) == report.summary.valid
    assert all('class="facts"' in body and "</script" not in body for body in bodies)
    assert made.count('<details class="result bad"') == report.summary.invalid
    assert made.count("<dt>Folder") == report.summary.invalid


def test_html_caps_findings_but_counts_them() -> None:
    findings = [Finding("S1", "s", "error", "m", f"f{n}") for n in range(4000)]
    made = text_of(samples.report([], findings), "html")
    assert "1,000 more findings, the least severe: see the JSON report" in made
    assert "4,000 findings" in made
    assert len(made) < 1_500_000


def test_html_links_to_files_of_the_repository() -> None:
    report = samples.report(
        [samples.result()],
        [
            Finding("S1", "s", "error", "m", "closed/a b#1/x.txt", 17),
            Finding("S2", "s", "error", "m", "../../etc/passwd"),
        ],
    )
    base = "https://github.com/mlcommons/inference_results_v6.0/blob/main"
    made = str(reports.render(report, "html", repository=f"{base}/"))
    assert f'href="{base}/closed/a%20b%231/x.txt#L17"' in made
    assert f'href="{base}/closed/Example/results/DX-8x270/llama2-70b-99/Server"' in made
    assert made.count(f'href="{base}') == 2


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "ftp://a/b", "https://", 'https://a/"', ""]
)
def test_repository_is_an_address(address: str) -> None:
    with pytest.raises(reports.ReportError, match="expected an address"):
        reports.render(samples.varied(), "html", repository=address)


def test_empty_report_renders_in_every_format() -> None:
    for name in reports.FORMATS:
        assert reports.render(samples.report([], []), name)


def test_odd_numbers_render_in_every_format() -> None:
    odd = samples.result(
        metric=Metric("m", float("inf"), "Samples/s"),
        accuracy=[AccuracyScore("acc", float("nan"), target=1.0), AccuracyScore("b", 0.0, 0.0)],
        runs=[
            msgspec.structs.replace(
                samples.varied().results[0].runs[0],
                latency_ns={"99.00": float("nan"), "50.00": 0.0, "min": -1.0},
                duration_s=float("inf"),
                started="not a time",
            )
        ],
    )
    for name in reports.FORMATS:
        if name != "json":  # JSON has no such numbers; the checker reports them as findings
            assert reports.render(samples.report([odd], []), name)


# arrangement and diff


def test_findings_of_a_system_belong_to_each_of_its_results() -> None:
    report = samples.varied()
    attached = arrange.Attached(report)
    assert [len(attached.of(result)) for result in report.results] == [1, 1, 14, 0, 0]
    assert sorted(finding.rule for finding in attached.loose) == ["R201", "S003", "X003"]


def test_diff_of_equals_is_empty() -> None:
    changes = diff.diff(samples.varied(), samples.varied())
    assert changes.empty
    assert not changes.worse
    assert diff.to_text(changes) == "No difference.\n"


def test_diff_sees_each_kind_of_change() -> None:
    changes = diff.diff(samples.varied(), samples.later())
    assert [(c.old, c.new) for c in changes.verdicts] == [("invalid", "valid")]
    assert [name.rsplit(" / ", 2)[1] for name in changes.results_new] == ["whisper"]
    assert [name.rsplit(" / ", 2)[1] for name in changes.results_gone] == ["own-model"]
    assert [c.what for c in changes.metrics] == ["metric (Tokens/s)", "power"]
    assert [c.what for c in changes.accuracy] == ["ROUGE1", "GEN_LEN"]
    assert len(changes.findings_gone) == 13
    assert [f.path for f in changes.findings_new] == ["closed/new/path"]
    assert [f.rule for f in changes.findings_waived] == ["D101"]
    assert changes.worse
    back = diff.diff(samples.later(), samples.varied())
    assert [f.rule for f in back.findings_unwaived] == ["D101"]


def test_diff_ignores_a_moved_line() -> None:
    one = samples.report([], [Finding("S1", "s", "error", "at 3", "a", 3)])
    two = samples.report([], [Finding("S1", "s", "error", "at 4", "a", 4)])
    assert diff.diff(one, two).empty

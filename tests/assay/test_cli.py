"""The command line as CONTRACT and scripts rely on it: exit status, streams, options."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from assay.cli import main
from tests.trees import good_tree

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return good_tree(tmp_path_factory.mktemp("good"), round="v6.0", benchmark="resnet").root


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    tree = good_tree(tmp_path, round="v6.0", benchmark="resnet")
    tree.set_log(tree.result("Offline").detail, "result_validity", "INVALID")
    return tree.root


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
        timeout=120,
    )


def test_good_tree_exits_0(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(good), "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert "submission looks OK" in out
    assert err == ""


def test_error_exits_1_and_names_the_place(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(bad), "--jobs", "1"]) == 1
    out = capsys.readouterr().out
    assert "P102" in out
    assert "mlperf_log_detail.txt" in out


def test_a_missing_scenario_is_one_verdict(tmp_path: Path) -> None:
    """Exit status, report and csv of one command: none of the benchmark's other results is valid."""
    tree = good_tree(tmp_path, round="v6.0", benchmark="resnet", category="edge")
    tree.remove(tree.result("MultiStream").path)
    report, table = tmp_path / "report.json", tmp_path / "summary.csv"
    outputs = ["--output", str(report), "--output", str(table)]
    assert main(["check", str(tree.root), "--jobs", "1", "--quiet", *outputs]) == 1
    found = json.loads(report.read_bytes())
    assert {one["scenario"]: one["status"] for one in found["results"]} == {
        "Offline": "invalid",
        "SingleStream": "invalid",
    }
    assert [(one["rule"], one["severity"]) for one in found["findings"]] == [("S116", "error")]
    assert len(table.read_text().splitlines()) == 1


def test_json_on_standard_output_is_a_report(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(bad), "--format", "json", "--jobs", "1"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["format"] == "assay-report"
    assert report["format_version"] == 2
    rules = {f["rule"] for f in report["findings"] if f["severity"] == "error"}
    assert {"P102", "P134"} <= rules
    by_scenario = {r["scenario"]: r["status"] for r in report["results"]}
    assert by_scenario["Offline"] == "invalid"
    assert set(by_scenario.values()) == {"valid", "invalid"}


def test_several_outputs_by_suffix(good: Path, tmp_path: Path) -> None:
    names = ["r.json", "r.html", "r.csv", "r.md", "r.sarif", "r.xml", "r.xlsx"]
    arguments = [part for name in names for part in ("--output", str(tmp_path / name))]
    assert main(["check", str(good), "--jobs", "1", *arguments]) == 0
    assert all((tmp_path / name).stat().st_size > 100 for name in names)


def test_a_saved_report_renders_the_same(bad: Path, tmp_path: Path) -> None:
    saved, direct, again = tmp_path / "r.json", tmp_path / "a.html", tmp_path / "b.html"
    arguments = ["--output", str(saved), "--output", str(direct)]
    assert main(["check", str(bad), "--jobs", "1", *arguments]) == 1
    assert main(["report", str(saved), "--output", str(again)]) == 1
    assert direct.read_bytes() == again.read_bytes()


def test_repo_url_links_findings_to_files(bad: Path, tmp_path: Path) -> None:
    page, address = tmp_path / "page.html", "https://git.example/r/blob/main"
    main(["check", str(bad), "--jobs", "1", "--repo-url", address, "--output", str(page)])
    linked = re.findall(rf'<a class="path" href="{address}/([^"]+)"', page.read_text())
    assert linked and all((bad / part.split("#")[0]).exists() for part in linked)


def test_diff_tells_what_changed(
    good: Path, bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    main(["check", str(good), "--jobs", "1", "--output", str(old)])
    main(["check", str(bad), "--jobs", "1", "--output", str(new)])
    capsys.readouterr()
    assert main(["diff", str(old), str(new)]) == 1
    assert "P102" in capsys.readouterr().out
    assert main(["diff", str(old), str(old)]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["check"],
        ["check", "no-such-folder"],
        ["check", ".", "--round", "v9.9"],
        ["check", ".", "--select", "Z999"],
        ["check", ".", "--format", "pdf"],
        ["check", ".", "--output", "x.pdf"],
        ["check", ".", "--jobs", "0"],
        ["check", ".", "--repo-url", "javascript:alert(1)"],
        ["check", ".", "--complaince"],
        ["check", ".", "--strict=yes"],
        ["report", "no-such.json"],
        ["rules", "P9999"],
        ["rounds", "v9.9"],
        ["no-such-command"],
    ],
    ids=lambda a: " ".join(a) or "(nothing)",
)
def test_usage_errors_exit_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err


@pytest.mark.parametrize(
    ("arguments", "message", "usage"),
    [
        ("run --nonsense", "--nonsense is not an option of assay run", "usage: assay run [-h]"),
        (
            "run --target_qps 3",
            "--target_qps is not an option of assay run; did you mean --target-qps?",
            "usage: assay run [-h]",
        ),
        (
            "check a --outptu=b --quite",
            "--outptu is not an option of assay check; did you mean --output?; "
            "--quite is not an option of assay check; did you mean --quiet?",
            "usage: assay check [-h]",
        ),
        ("check a b", "unrecognized arguments: b", "usage: assay check [-h]"),
        ("--nonsense run", "--nonsense is not an option of assay", "usage: assay [-h]"),
    ],
)
def test_what_a_command_does_not_know_shows_its_own_usage(
    arguments: str, message: str, usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 2
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first == f"assay: {message}" and second.startswith(usage)


def test_case_060_nothing_checked_exits_2(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(good), "--submitter", "NoSuch", "--jobs", "1"]) == 2
    assert "X003" in capsys.readouterr().out
    (tmp_path / "closed").mkdir()
    assert main(["check", str(tmp_path), "--jobs", "1"]) == 2


def test_strict_fails_on_warnings(tmp_path: Path) -> None:
    tree = good_tree(tmp_path, round="v6.0", benchmark="resnet")
    tree.set_log(tree.result("Offline").detail, "loadgen_version", "3.0 @ 0123456789")
    assert main(["check", str(tree.root), "--jobs", "1"]) == 0
    assert main(["check", str(tree.root), "--jobs", "1", "--strict"]) == 1


def test_select_and_ignore(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(bad), "--jobs", "1", "--ignore", "P102,P134,P131"]) == 0
    assert main(["check", str(bad), "--jobs", "1", "--select", "run-valid"]) == 1
    assert main(["check", str(bad), "--jobs", "1", "--select", "A,C"]) == 0


def test_waived_findings_are_shown_and_do_not_fail(
    bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    waivers = tmp_path / "waivers.toml"
    waivers.write_text(
        "".join(
            f'[[waiver]]\nrule = "{rule}"\npath = "closed/**"\nreason = "looked at"\nowner = "me"\n'
            for rule in ("P102", "P134", "P131")
        )
    )
    assert (
        main(["check", str(bad), "--jobs", "1", "--waivers", str(waivers), "--format", "json"]) == 0
    )
    report = json.loads(capsys.readouterr().out)
    waived = [f for f in report["findings"] if f["waived"]]
    assert {f["rule"] for f in waived} == {"P102", "P134", "P131"}
    assert report["summary"]["waived"] == len(waived)
    assert report["summary"]["invalid"] == 0


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "tar.xz", "zip"])
def test_archives_give_the_same_findings(
    bad: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / f"submission.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as packed:
            for file in sorted(bad.rglob("*")):
                packed.write(file, file.relative_to(bad))
    else:
        mode = {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz"}[kind]
        with tarfile.open(archive, mode) as packed:  # type: ignore[call-overload]
            packed.add(bad, ".")
    main(["check", str(bad), "--format", "json", "--jobs", "1"])
    want = json.loads(capsys.readouterr().out)
    assert main(["check", str(archive), "--format", "json", "--jobs", "1"]) == 1
    got = json.loads(capsys.readouterr().out)
    assert got["findings"] == want["findings"]
    assert got["results"] == want["results"]


def test_parts_of_a_tree_can_be_checked(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = next(bad.glob("closed/*/results/*/*/Offline"))
    for part, scope in (
        (bad / "closed", "division"),
        (result.parents[3], "submitter"),
        (result.parents[1], "system"),
        (result.parents[0], "benchmark"),
        (result, "result"),
        (result / "performance" / "run_1", "run"),
    ):
        assert main(["check", str(part), "--format", "json", "--jobs", "1"]) == 1, scope
        report = json.loads(capsys.readouterr().out)
        assert report["scope"] == scope
        assert {f["rule"] for f in report["findings"] if f["severity"] == "error"} == {
            "P102",
            "P131",
            "P134",
        }
        assert report["not_checked"]


def test_rules_and_rounds_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "P104"]) == 0
    text = capsys.readouterr().out
    assert "min-query-count" in text
    assert "Fix:" in text
    assert main(["rules", "min-query-count"]) == 0
    assert capsys.readouterr().out == text
    assert main(["rounds"]) == 0
    assert "v0.5" in capsys.readouterr().out
    assert main(["rounds", "6.1"]) == 0
    assert "deepseek-r1" in capsys.readouterr().out
    assert main(["rounds", "v6.0", "--diff", "v6.1"]) == 0
    assert "* seeds schedule rng seed: " in capsys.readouterr().out


def test_rules_show_the_severity_of_each_round_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "P104"]) == 0
    assert capsys.readouterr().out.split("Severity:\n")[1] == (
        "  v0.5 to v3.0: warning\n"
        "      only logged (the official checker of each round)\n"
        "  v3.1 to v6.1: error\n"
    )
    assert main(["rules", "A113"]) == 0
    lines = capsys.readouterr().out.split("Severity:\n")[1].splitlines()
    assert [line for line in lines if not line.startswith("        ")] == [
        "  other divisions",
        "    v0.5 to v6.0: warning in check, error in audit",
        "    v6.1: error",
        "  open",
        "    v0.5 to v6.1: warning in check, error in audit",
    ]
    assert main(["rules", "X001"]) == 0
    assert capsys.readouterr().out.endswith("Severity:\n  v0.5 to v6.1: error\n")


def test_version_and_help() -> None:
    done = command("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("assay ")
    assert command("--help").returncode == 0


def test_import_is_light() -> None:
    code = (
        "import sys, assay\n"
        "heavy = {'numpy', 'onnxruntime', 'onnx', 'mlperf_loadgen', 'pycocotools', 'sacrebleu', 'rich', 'jinja2',"
        " 'jsonschema', 'msgspec', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"


def test_closed_pipe_is_no_traceback(good: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m assay check {good} --format json | head -c 10",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "content",
    [
        b'{"a":' * 100_000,
        b"[" * 100_000,
        b'{"format_version":' + b"9" * 5000 + b"}",
        b"[1]",
        b"\xff",
    ],
    ids=["objects", "lists", "digits", "a list", "not UTF-8"],
)
def test_a_saved_report_that_is_none(
    content: bytes, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2 and one line, from every command that reads reports."""
    place = tmp_path / "report.json"
    place.write_bytes(content)
    for arguments in (
        ["report", str(place)],
        ["diff", str(place), str(place)],
        ["audit", str(good), "--jobs", "1", "--since", str(place)],
    ):
        assert main(arguments) == 2
        out, told = capsys.readouterr()
        assert out == "" and told.startswith(f"assay: {place}: ") and told.count("\n") == 1


def test_baseline_is_read_before_the_check_and_shown_first(
    good: Path, bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.json"
    assert main(["check", str(good), "--jobs", "1", "--output", str(old), "--quiet"]) == 0
    assert main(["check", str(bad), "--jobs", "1", "--baseline", str(old)]) == 1
    out = capsys.readouterr().out
    assert out.index("Since ") < out.index("Findings") < out.index("SUMMARY")
    assert re.search(
        r"Since old\.json: [1-9]\d* new \(\d+ errors?\), 0 gone, ", " ".join(out.split())
    )
    assert main(["check", str(bad / "absent"), "--baseline", str(bad / "none.json")]) == 2
    assert "none.json cannot be read" in capsys.readouterr().err


def test_a_missing_package_is_noticed_before_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    outputs = ["--output", str(tmp_path / "r.json"), "--output", str(tmp_path / "r.xlsx")]
    assert main(["check", str(tmp_path / "absent"), *outputs]) == 2
    err = capsys.readouterr().err
    assert 'pip install "assay[xlsx]"' in err
    assert "absent" not in err

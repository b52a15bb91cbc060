"""Cases of families A and C that were published or publicly reported, one test each.

Each edits one thing of a good tree; the name says what it was, the assertion what is right.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from checker.accuracy.log import LogReader
from checker.compliance.tokens import read_tokens
from schemas.enforcement import severity_of
from schemas.load import load_round
from schemas.names import benchmark_name
from tests.conftest import Grow
from tests.trees import ACCURACY, DETAIL, GoodTree

RUN = f"performance/run_1/{DETAIL}"
VISION: dict[str, Any] = {"benchmark": "resnet", "category": "edge"}
TOKENS: dict[str, Any] = {"benchmark": "llama2-70b-99", "category": "datacenter"}


def _test(tree: GoodTree, test: str, scenario: str = "Offline") -> Path:
    return tree.result(scenario).compliance(test)


def _found(tree: GoodTree) -> list[tuple[str, str, int]]:
    return [(f.rule, f.severity, f.count) for f in tree.check().findings]


def _accuracy(tree: GoodTree, line: str) -> None:
    place = tree.result("Offline").accuracy_text
    tree.write(place, "\n".join([line, *place.read_text().splitlines()[1:]]) + "\n")


def _tokens(*answers: list[int]) -> Any:
    import io

    rows = [
        {
            "seq_id": i,
            "qsl_idx": i,
            "data": struct.pack(f"<{len(a)}i", *a).hex(),
            "token_count": len(a),
        }
        for i, a in enumerate(answers)
    ]
    return io.BytesIO(json.dumps(rows).encode())


# --- published as valid -------------------------------------------------------------------------


@pytest.mark.parametrize(("round", "severity"), [("v5.1", "warning"), ("v6.1", "error")])
def test_answer_log_of_a_test_is_empty(round: str, severity: str, grow: Grow) -> None:
    tree = grow(round=round, **VISION)
    tree.write(_test(tree, "TEST01") / "accuracy" / ACCURACY, "[\n]\n")
    assert _found(tree) == [("C126", severity, 1)]
    message = tree.check().findings[0].message
    assert "audit.config" not in message, "the log says that it was read"


@pytest.mark.parametrize("gap", [b"\n\n...\n\n", b"\r\n\r\n...\r\n\r\n", b"\r\n...\r\n"])
def test_truncated_logs_with_other_line_ends(gap: bytes, tmp_path: Path) -> None:
    log = tmp_path / ACCURACY
    first, last = (b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "00" }' % (n, n) for n in (0, 9))
    log.write_bytes(
        b"[\r\n" + first + b',\r\n{ "seq_id" : 1, "qs' + gap + b'00" },\r\n' + last + b"\r\n]\r\n"
    )
    reader = LogReader(log)
    assert [record.qsl_idx for record in reader] == [0, 9]
    assert reader.truncated and [p.kind for p in reader.problems] == ["gap"]


@pytest.mark.parametrize(("round", "severity"), [("v6.0", "warning"), ("v6.1", "error")])
def test_accuracy_folder_holds_a_performance_run(round: str, severity: str, grow: Grow) -> None:
    tree = grow(round=round, **VISION, scenarios=["Offline"])
    tree.set_log(tree.result("Offline").accuracy_detail, "effective_test_mode", "PerformanceOnly")
    assert [f for f in _found(tree) if f[0][0] == "A"] == [
        ("A112", severity, 1),
        ("A113", severity, 1),
    ]
    for rule, case in (("A113", None), ("A112", "performance run")):
        truth = severity_of(rule, "error", round=round, case=case, division="closed", audit=True)
        assert truth == "error"


def test_test_run_is_invalid_in_v2_1(grow: Grow) -> None:
    tree = grow(round="v2.1", **VISION, scenarios=["Offline"])
    tree.set_log(_test(tree, "TEST04") / RUN, "result_validity", "INVALID")
    assert [f for f in _found(tree) if f[0][0] == "C"] == [("C116", "warning", 1)]


@pytest.mark.parametrize(
    ("rule", "case", "round"),
    [
        ("C113", None, "v3.0"),
        ("C124", None, "v2.1"),
        ("C126", "empty-list", "v6.0"),
        ("C116", None, "v2.1"),
    ],
)
def test_what_was_published_warns_and_is_an_error_in_audit(
    rule: str, case: str | None, round: str
) -> None:
    where: dict[str, Any] = {"round": round, "case": case, "division": "closed"}
    assert severity_of(rule, "error", **where) == "warning"
    assert severity_of(rule, "error", **where, audit=True) == "error"


def test_multiple_conf_files_are_waived_in_tests(grow: Grow) -> None:
    tree = grow(**VISION)
    tree.add_log(
        _test(tree, "TEST04") / RUN,
        "error_invalid_config",
        "Multiple conf files are used. This is not valid for official submission.",
        is_error=True,
    )
    assert _found(tree) == []


def test_errors_of_a_test_run_are_one_finding_with_a_count(grow: Grow) -> None:
    tree = grow(**VISION)
    for _ in range(90):
        tree.add_log(_test(tree, "TEST01") / RUN, "error_runtime", "no answer", is_error=True)
    assert _found(tree) == [("C117", "error", 90)]


@pytest.mark.parametrize(("factor", "expected"), [(1.5, []), (0.98, []), (0.9, ["C121"])])
def test_test05_is_one_sided(factor: float, expected: list[str], grow: Grow) -> None:
    tree = grow(round="v3.0", **VISION, scenarios=["Offline"])
    place = _test(tree, "TEST05")
    key = "result_samples_per_second"
    tree.set_log(place / RUN, key, tree.get_log(tree.result("Offline").detail, key) * factor)
    assert [rule for rule, _ in tree.findings(select=("C121",))] == expected


def test_recommender_entropy_above_its_bound_in_v6_1() -> None:
    def of(case: str | None) -> str:
        return severity_of("A105", "error", round="v6.1", case=case, division="closed")

    assert (of("entropy"), of(None)) == ("warning", "error")


# --- accepted, though it must not be -------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("accuracy=180.0%, good=38032, total=50000", ["A122", "A123"]),
        ("accuracy=80.0%, good=38109, total=50000", ["A123"]),
        ("accuracy=76,064%, good=38032, total=50000", ["A103", "X002"]),
        ("accuracy=76.5%, good=76500, total=100000", ["A116"]),
    ],
)
def test_accuracy_text_contradicts_itself(line: str, rules: list[str], grow: Grow) -> None:
    tree = grow(**VISION, scenarios=["Offline"])
    _accuracy(tree, line)
    found = sorted(f.rule for f in tree.check().findings if f.subject.scenario == "Offline")
    assert found == rules


@pytest.mark.parametrize(
    ("lines", "metric", "fits"),
    [
        ([" Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.372", "mAP=37.244%"], "mAP", True),
        ([" Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.352", "mAP=37.244%"], "mAP", False),
        (['{"exact_match": 82.8, "f1": 90.3}'], "exact_match", True),
        (['{"exact_match": 92.8, "f1": 90.3}'], "exact_match", False),
        (["{'rouge1': 44.6, 'rougeL': 45.7, 'gen_num': 24576}"], "rougeL", False),
        (["FINAL SCORE: 83.50% (1071.33/1283.00)", "'exact_match': 83.502"], "exact_match", True),
        (["FINAL SCORE: 73.50% (943.00/1283.00)", "'exact_match': 83.502"], "exact_match", False),
        (["'vbench_score': 70.1582", "  Overall Average               : 0.7016 (70.16%)"], "vbench_score", True),
        (["'vbench_score': 71.1582", "  Overall Average               : 0.7016 (70.16%)"], "vbench_score", False),
        (["Accuracy: mean = 0.85300, whole tumor = 0.9141, tumor core = 0.8679, enhancing tumor = 0.7770"], "mean", True),
        (["Accuracy: mean = 0.87300, whole tumor = 0.9141, tumor core = 0.8679, enhancing tumor = 0.7770"], "mean", False),
    ],
)  # fmt: skip
def test_what_a_text_states_twice(
    lines: list[str], metric: str, fits: bool, tmp_path: Path
) -> None:
    from checker.parse.accuracy_txt import read_accuracy
    from checker.parse.reading import File
    from checker.rules.accuracy.scores import accuracy_text_consistent

    place = tmp_path / "accuracy.txt"
    place.write_text("\n".join(lines) + "\n")
    text = read_accuracy(File("accuracy.txt", str(place), place.stat().st_size), {})
    assert metric in {one.name for one in text.derived}

    class Run:
        text_path = "accuracy.txt"

    problems = [*accuracy_text_consistent.check(Run(), None, text.derived)]
    assert [f"found {metric}" in p.message for p in problems] == ([] if fits else [True])


def test_compliance_run_of_ten_seconds(grow: Grow) -> None:
    tree = grow(**VISION)
    tree.set_log(_test(tree, "TEST04") / RUN, "effective_min_duration_ms", 10_000)
    report = tree.check()
    assert [(f.rule, f.severity, f.found, f.required) for f in report.findings] == [
        ("C131", "error", 10_000, 600_000),
        ("P131", "warning", 600_000, 10_000),  # the summary still has the round's
    ]


def test_verification_text_with_a_score_of_no_run(grow: Grow) -> None:
    tree = grow(**VISION)
    place = _test(tree, "TEST04") / "verify_performance.txt"
    lines = [
        "test score = 99999" if "test score" in x else x for x in place.read_text().split("\n")
    ]
    tree.write(place, "\n".join(lines))
    assert _found(tree) == [("C122", "error", 1)]


def test_verification_text_that_passes_against_its_own_scores(grow: Grow) -> None:
    tree = grow(**VISION)
    logs = tree.result("Offline").detail, _test(tree, "TEST01") / RUN
    for place in logs:
        tree.set_log(place, "result_mean_latency_ns", 400)
    text = _test(tree, "TEST01") / "verify_performance.txt"
    lines = ["Test score = 400" if "Test score" in x else x for x in text.read_text().split("\n")]
    tree.write(text, "\n".join(lines))
    found = tree.check(select=("C122",)).findings
    assert [f.severity for f in found] == ["error"] and "TEST PASS beside" in found[0].message


def test_whole_log_of_ten_answers(grow: Grow) -> None:
    tree = grow(**VISION, scenarios=["Offline"])
    rows = [{"seq_id": i, "qsl_idx": i, "data": "00"} for i in range(10)]
    tree.write(tree.result("Offline").accuracy_log, json.dumps(rows))
    found = tree.check(select=("A",)).findings
    assert [(f.rule, f.severity, f.found, f.required) for f in found] == [
        ("A124", "error", 10, 50_000)
    ]


@pytest.mark.parametrize(
    ("answer", "passes"), [([2, 2], True), ([7, 2, 2], False), ([7, 2], True), ([2], True)]
)
def test_repeated_end_tokens(answer: list[int], passes: bool) -> None:
    assert read_tokens(_tokens([5, 6, 2], answer), ends=(2,)).passed is passes


def test_one_token_width_for_a_log() -> None:
    """An answer that ends in token 0 looks like int64 alone; the log's other answers are int32."""
    found = read_tokens(_tokens([5, 0], [5, 6, 7]))
    assert (found.total, found.passed) == (5, True)


def test_test01_fails_and_its_fallback_is_near_the_limit(grow: Grow) -> None:
    tree = grow(**VISION)
    folder = _test(tree, "TEST01")
    tree.edit_text(folder / "verify_accuracy.txt", "TEST PASS", "TEST FAIL")
    tree.write(folder / "accuracy/baseline_accuracy.txt", "accuracy=76.0%, good=76, total=100\n")
    tree.write(folder / "accuracy/compliance_accuracy.txt", "accuracy=75.4%, good=75, total=100\n")
    assert _found(tree) == [("C106", "note", 1)]


def test_open_accuracy_below_the_reference_is_a_note(grow: Grow) -> None:
    tree = grow(division="open", **VISION, scenarios=["Offline"])
    _accuracy(tree, "accuracy=50.0%, good=25000, total=50000")
    assert [f for f in _found(tree) if f[0][0] == "A"] == [("A125", "note", 1)]


@pytest.mark.parametrize(("removed", "severity"), [(1, "warning"), (10, "note")])
def test_images_partly_there(removed: int, severity: str, grow: Grow) -> None:
    tree = grow(round="v6.0", benchmark="stable-diffusion-xl", category="edge")
    folder = tree.result("Offline").accuracy / "images"
    for place in sorted(folder.iterdir())[:removed]:
        place.unlink()
    assert [f for f in _found(tree) if f[0][0] == "A"] == [("A117", severity, 1)]


# --- texts and logs of something else ------------------------------------------------------------


def test_test_of_another_benchmark(grow: Grow) -> None:
    tree = grow(**VISION)
    place = _test(tree, "TEST04") / RUN
    tree.set_log(place, "qsl_name", "squad")
    tree.set_log(place, "qsl_reported_total_count", 10_833)
    assert _found(tree) == [("C128", "error", 1)]


def test_accuracy_comparison_of_another_benchmark(grow: Grow) -> None:
    tree = grow(benchmark="bert-99", category="edge")
    text = _test(tree, "TEST01") / "verify_accuracy.txt"
    tree.edit_text(text, "num_acc_log_entries = 10833", "num_acc_log_entries = 50000")
    assert _found(tree) == [("C123", "error", 1)]


def test_test04_that_never_repeated_a_sample(grow: Grow) -> None:
    tree = grow(round="v6.1", **VISION)
    if "TEST04" not in {p.name for p in _test(tree, "TEST04").parent.iterdir()}:
        pytest.skip("the round has no TEST04 here")
    tree.set_log(_test(tree, "TEST04") / RUN, "effective_performance_issue_same", False)
    assert _found(tree) == [("C114", "error", 1), ("P131", "warning", 1)]


@pytest.mark.parametrize(
    ("folder", "benchmark"),
    [
        ("ssd-mobilenet-v1", "ssd-small"),
        ("ssdlite-mobilenet-v2", "ssd-small"),
        ("ssd-mobilenet-v1-fpn", "ssd-small"),
        ("mobilenet-v2-1.0", "mobilenet"),
    ],
)
def test_p108_an_ssd_is_not_a_mobilenet_in_v05(folder: str, benchmark: str) -> None:
    assert benchmark_name(folder, load_round("v0.5"), {}, "open") == benchmark

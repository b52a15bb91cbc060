"""Family C: a good tree has no finding; one thing broken gives exactly what is listed here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checker import loadgen_keys as keys
from checker.rules import RULES
from tests.checker.rules.breaking import Break, broken, in_both_logs, run_break
from tests.conftest import Grow
from tests.trees import ACCURACY, DELETE, DETAIL, SUMMARY, GoodTree

VISION: dict[str, Any] = {"benchmark": "resnet", "category": "edge"}
TOKENS: dict[str, Any] = {
    "benchmark": "llama2-70b-99", "category": "datacenter", "scenarios": ["Offline", "Server"],
}  # fmt: skip
OSS: dict[str, Any] = {
    "benchmark": "gpt-oss-120b", "category": "datacenter", "scenarios": ["Offline", "Server"],
}  # fmt: skip
RANKING: dict[str, Any] = {
    "benchmark": "dlrm-v3", "category": "datacenter", "scenarios": ["Offline", "Server"],
}  # fmt: skip
SEEDS: dict[str, Any] = {**VISION, "round": "v3.0"}

RUN = f"performance/run_1/{DETAIL}"


def _test(tree: GoodTree, test: str, scenario: str = "Offline") -> Path:
    return tree.result(scenario).compliance(test)


def _log(test: str, key: str, value: Any, scenario: str = "Offline") -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        in_both_logs(tree, _test(tree, test, scenario) / RUN, key, value)

    return change


def _text(
    test: str, name: str, old: str, new: str, scenario: str = "Offline"
) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        tree.edit_text(_test(tree, test, scenario) / name, old, new)

    return change


def _no_verdict(tree: GoodTree) -> None:
    tree.write(_test(tree, "TEST01") / "verify_accuracy.txt", "404 Not Found\n")


def _remove(test: str, name: str = "", scenario: str = "Offline") -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        tree.remove(_test(tree, test, scenario) / name if name else _test(tree, test, scenario))

    return change


def _fallback(baseline: str, compliance: str) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        folder = _test(tree, "TEST01")
        tree.edit_text(folder / "verify_accuracy.txt", "TEST PASS", "TEST FAIL")
        tree.write(folder / "accuracy/baseline_accuracy.txt", baseline)
        tree.write(folder / "accuracy/compliance_accuracy.txt", compliance)

    return change


def _records(
    test: str, edit: Callable[[list[dict[str, Any]]], object], scenario: str = "Offline"
) -> Callable[[GoodTree], None]:
    """Change the records of a test's accuracy log."""

    def change(tree: GoodTree) -> None:
        place = _test(tree, test, scenario) / "accuracy" / ACCURACY
        records = json.loads(place.read_text())
        edit(records)
        lines = [json.dumps(r).replace('{"seq_id"', '{ "seq_id"') for r in records]
        tree.write(place, "[\n" + ",\n".join(lines) + "\n]\n")

    return change


def _many(*changes: Callable[[GoodTree], None]) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        for one in changes:
            one(tree)

    return change


def _copy_main(tree: GoodTree) -> None:
    place = tree.result("Offline")
    for key in ("result_mean_latency_ns", *keys.LATENCY.rising, "result_query_count"):
        in_both_logs(tree, _test(tree, "TEST04") / RUN, key, tree.get_log(place.detail, key))


def _add_test(tree: GoodTree) -> None:
    tree.write(_test(tree, "TEST06") / "verify_accuracy.txt", "First token check pass: True\n")


def _without_audit(tree: GoodTree) -> None:
    place = _test(tree, "TEST04") / RUN
    lines = [line for line in place.read_text().splitlines() if "audit.config" not in line]
    place.write_text("\n".join(lines) + "\n")


def _scenario(tree: GoodTree) -> None:
    in_both_logs(tree, _test(tree, "TEST01") / RUN, "effective_scenario", "Server")


def _repeat(tree: GoodTree) -> None:
    main = tree.result("Offline").accuracy_log
    rows = [{"seq_id": i, "qsl_idx": i, "data": f"{i:08X}"} for i in range(10)]
    tree.write(main, json.dumps(rows))
    again = [*rows, {"seq_id": 10, "qsl_idx": 3, "data": "0000FFFF"}]
    tree.write(_test(tree, "TEST01") / "accuracy" / ACCURACY, json.dumps(again))


def _other_answers(tree: GoodTree) -> None:
    rows = [{"seq_id": i, "qsl_idx": i, "data": f"{i:08X}"} for i in range(10)]
    tree.write(tree.result("Offline").accuracy_log, json.dumps(rows))
    for row in rows[4:6]:
        row["data"] = "DEADBEEF"
    tree.write(_test(tree, "TEST01") / "accuracy" / ACCURACY, json.dumps(rows))


def _cut_answers(tree: GoodTree) -> None:
    _other_answers(tree)
    place = tree.result("Offline").accuracy_log
    tree.write(place, place.read_text().rstrip("]") + ",\n\n...\n\n]")


def _few_samples(records: list[dict[str, Any]]) -> None:
    for record in records:
        record["qsl_idx"] = record["qsl_idx"] % 600


BREAKS: dict[str, list[Break]] = {
    "C101": [
        Break(_remove("TEST04"), [("C101", "Offline/TEST04")], VISION),
        Break(
            lambda tree: tree.remove(tree.result("Offline").compliance_root or ""),
            [
                ("C101", f"/{{division}}/{{submitter}}/compliance/{{system}}/{{benchmark}}/Offline/{t}")
                for t in ("TEST01", "TEST04", "TEST05")
            ],
            SEEDS,
        ),
    ],
    "C102": [
        Break(
            _remove("TEST04", f"performance/run_1/{SUMMARY}"),
            [("C102", f"Offline/TEST04/performance/run_1/{SUMMARY}")], VISION,
        ),
        Break(
            _remove("TEST01", "verify_accuracy.txt"),
            [("C102", "Offline/TEST01/verify_accuracy.txt")], VISION,
        ),
    ],
    "C103": [Break(_add_test, [("C103", "Offline/TEST06")], VISION, notes=True)],
    "C104": [
        Break(
            _text("TEST04", "verify_performance.txt", "TEST PASS", "TEST FAIL"),
            [("C104", "Offline/TEST04/verify_performance.txt")], VISION,
        ),
        Break(
            _text("TEST09", "verify_output_len.txt", "TEST PASS", ""),
            [("C104", "Offline/TEST09/verify_output_len.txt")], OSS,
        ),
    ],
    "C105": [
        Break(
            _text("TEST01", "verify_accuracy.txt", "TEST PASS", "TEST PASS\nTEST FAIL"),
            [("C105", "Offline/TEST01/verify_accuracy.txt")], VISION,
        ),
    ],
    "C106": [
        Break(
            _text("TEST01", "verify_accuracy.txt", "TEST PASS", "TEST FAIL"),
            [("C106", "Offline/TEST01/verify_accuracy.txt")], VISION,
        ),
        Break(
            _fallback("accuracy=76.0%, good=76, total=100\n", "accuracy=75.0%, good=75, total=100\n"),
            [("C106", "Offline/TEST01/accuracy/compliance_accuracy.txt")], VISION,
        ),
        Break(
            _fallback("nothing\n", "nothing\n"),
            [("C106", "Offline/TEST01/accuracy/baseline_accuracy.txt")], VISION,
        ),
    ],
    "C107": [
        Break(
            _text("TEST06", "verify_accuracy.txt", "EOS check pass: True", "EOS check pass: False"),
            [("C107", "Offline/TEST06/verify_accuracy.txt")], TOKENS,
        ),
        Break(
            _text("TEST06", "verify_accuracy.txt", "Sample length check pass: True\n", ""),
            [("C107", "Offline/TEST06/verify_accuracy.txt")], TOKENS,
        ),
        Break(
            _text("TEST06", "verify_accuracy.txt", "token check pass: True", "token check pass: False", "Server"),
            [("C107", "Server/TEST06/verify_accuracy.txt")], TOKENS,
        ),
    ],
    "C108": [
        Break(
            _text("TEST06", "verify_accuracy.txt", "token check pass: True", "token check pass: Skipped", "Server"),
            [("C108", "Server/TEST06/verify_accuracy.txt")], TOKENS,
        ),
    ],
    "C109": [
        Break(
            _records("TEST06", lambda rows: rows[3].update(token_count=rows[3]["token_count"] + 1)),
            [("C109", f"Offline/TEST06/accuracy/{ACCURACY}")], TOKENS,
        ),
        Break(
            _records("TEST06", lambda rows: rows[3].update(token_data="FFFF0000"), "Server"),
            [("C109", f"Server/TEST06/accuracy/{ACCURACY}")], TOKENS,
        ),
        Break(
            _records(
                "TEST06",
                lambda rows: rows[3].update(
                    data=rows[3]["data"] + "02000000", token_count=rows[3]["token_count"] + 1
                ),
            ),
            [("C109", f"Offline/TEST06/accuracy/{ACCURACY}")], TOKENS,
        ),
    ],
    "C110": [
        Break(
            _text("TEST07", "verify_accuracy.txt", "Accuracy score: 61.305", "Accuracy score: 60.1"),
            [("C110", "Offline/TEST07/verify_accuracy.txt")], OSS,
        ),
        Break(
            _text("TEST07", "verify_accuracy.txt", "threshold: 60.698", "threshold: 50"),
            [("C110", "Offline/TEST07/verify_accuracy.txt")], OSS,
        ),
        Break(
            _text("TEST07", "verify_accuracy.txt", "check pass: True", "check pass: False"),
            [("C110", "Offline/TEST07/verify_accuracy.txt")], OSS,
        ),
    ],
    "C111": [
        Break(
            _text("TEST08", "verify_accuracy.txt", "num_unmatched = 0", "num_unmatched = 5"),
            [("C111", "Offline/TEST08/verify_accuracy.txt")], RANKING,
        ),
        Break(
            _text("TEST08", "verify_accuracy.txt", "tolerance = 0.10%", "tolerance = 5.00%"),
            [("C111", "Offline/TEST08/verify_accuracy.txt")], RANKING,
        ),
    ],
    "C112": [
        Break(
            _text("TEST09", "verify_output_len.txt", "Mean output tokens: 1278.20", "Mean output tokens: 900"),
            [("C112", "Offline/TEST09/verify_output_len.txt")] * 2, OSS,
        ),
        Break(
            _log("TEST09", "result_tokens_per_second", 10.0),
            [("C112", f"Offline/TEST09/{RUN}")], OSS,
        ),
    ],
    "C113": [
        Break(
            _log("TEST01", "effective_accuracy_log_rng_seed", 0),
            [("C113", f"Offline/TEST01/{RUN}")], VISION,
        ),
    ],
    "C114": [
        Break(
            _log("TEST04", "effective_performance_issue_same", False),
            [("C114", f"Offline/TEST04/{RUN}")], VISION,
        ),
        Break(
            _log("TEST01", "effective_accuracy_log_sampling_target", 64),
            [("C114", f"Offline/TEST01/{RUN}")], VISION,
        ),
    ],
    "C115": [Break(_without_audit, [("C115", f"Offline/TEST04/{RUN}")], VISION)],
    "C116": [
        Break(
            _log("TEST04", "result_validity", "INVALID"), [("C116", f"Offline/TEST04/{RUN}")], VISION
        ),
        Break(_log("TEST01", "result_validity", DELETE), [("C116", f"Offline/TEST01/{RUN}")], VISION),
    ],
    "C117": [
        Break(
            lambda tree: tree.add_log(
                _test(tree, "TEST01") / RUN, "error_runtime",
                "the SUT did not answer", is_error=True,
            ),
            [("C117", f"Offline/TEST01/{RUN}")], VISION,
        ),
    ],
    "C118": [
        Break(
            _log("TEST01", "effective_test_mode", "AccuracyOnly"),
            [("C118", f"Offline/TEST01/{RUN}")], VISION,
        ),
    ],
    "C119": [
        Break(_log("TEST01", "effective_qsl_rng_seed", 7), [("C119", f"Offline/TEST01/{RUN}")], VISION),
        Break(
            _log("TEST05", "effective_schedule_rng_seed", 7),
            [("C119", "/{division}/{submitter}/compliance/{system}/{benchmark}/Offline/TEST05/" + RUN)],
            SEEDS,
        ),
    ],
    "C120": [Break(_scenario, [("C120", f"Offline/TEST01/{RUN}")], VISION)],
    "C121": [
        Break(
            _many(
                _log("TEST01", "result_samples_per_second", 1.5),
                _text("TEST01", "verify_performance.txt", "Test score", "Another score"),
            ),
            [("C121", f"Offline/TEST01/{RUN}"), ("C122", "Offline/TEST01/verify_performance.txt")], VISION,
        ),
        Break(
            _many(
                _log("TEST04", "early_stopping_latency_ss", 1000, "SingleStream"),
                _text("TEST04", "verify_performance.txt", "test score", "other score", "SingleStream"),
            ),
            [
                ("C121", f"SingleStream/TEST04/{RUN}"),
                ("C122", "SingleStream/TEST04/verify_performance.txt"),
            ],
            VISION,
        ),
    ],
    "C122": [
        Break(
            _text("TEST01", "verify_performance.txt", "Test score = ", "Test score = 9"),
            [("C122", "Offline/TEST01/verify_performance.txt")], VISION,
        ),
        Break(
            _text("TEST01", "verify_performance.txt", "Reference score = ", ""),
            [("C122", "Offline/TEST01/verify_performance.txt")], VISION,
        ),
    ],
    "C123": [
        Break(
            _text("TEST01", "verify_accuracy.txt", "num_missing_qsl_idxs = 0\n", ""),
            [("C123", "Offline/TEST01/verify_accuracy.txt")], VISION,
        ),
        Break(
            _text("TEST01", "verify_accuracy.txt", "data_mismatch = 0\nnum_missing", "data_mismatch = 3\nnum_missing"),
            [("C123", "Offline/TEST01/verify_accuracy.txt")], VISION,
        ),
        Break(
            _text("TEST01", "verify_accuracy.txt", "num_acc_log_entries = 50000", "num_acc_log_entries = 100"),
            [("C123", "Offline/TEST01/verify_accuracy.txt")], VISION,
        ),
    ],
    "C124": [Break(_copy_main, [("C124", f"Offline/TEST04/{RUN}")], VISION)],
    "C125": [
        Break(
            _other_answers,
            [("A124", f"Offline/accuracy/{ACCURACY}"), ("C123", "Offline/TEST01/verify_accuracy.txt"),
             ("C125", f"Offline/TEST01/accuracy/{ACCURACY}")],
            VISION,
        ),
        Break(
            _cut_answers,
            [("C123", "Offline/TEST01/verify_accuracy.txt"), ("C125", f"Offline/TEST01/accuracy/{ACCURACY}")],
            VISION,
        ),
    ],
    "C126": [
        Break(
            lambda tree: tree.write(_test(tree, "TEST01") / "accuracy" / ACCURACY, "[\n]\n"),
            [("C126", f"Offline/TEST01/accuracy/{ACCURACY}")], VISION,
        ),
    ],
    "C133": [
        Break(
            lambda tree: tree.remove(_test(tree, "TEST01") / "accuracy"),
            [("C133", "Offline/TEST01")], VISION,
        ),
        Break(
            lambda tree: tree.remove(_test(tree, "TEST06") / "accuracy"),
            [("C133", "Offline/TEST06")], TOKENS, notes=True,
        ),
    ],
    "C127": [
        Break(
            _repeat,
            [("A124", f"Offline/accuracy/{ACCURACY}"), ("C123", "Offline/TEST01/verify_accuracy.txt"),
             ("C125", f"Offline/TEST01/accuracy/{ACCURACY}"), ("C127", f"Offline/TEST01/accuracy/{ACCURACY}")],
            VISION,
        ),
    ],
    "C128": [
        Break(_log("TEST04", "qsl_name", "another"), [("C128", f"Offline/TEST04/{RUN}")], VISION),
        Break(
            _log("TEST04", "loadgen_version", "6.0.1 @ aaaaaaaaaa"),
            [("C128", f"Offline/TEST04/{RUN}")], VISION, notes=True,
        ),
    ],
    "C129": [
        Break(
            _log("TEST04", "effective_performance_sample_count", 10),
            [("C129", f"Offline/TEST04/{RUN}")], VISION,
        ),
    ],
    "C131": [
        Break(_log("TEST04", "effective_min_duration_ms", 10_000), [("C131", f"Offline/TEST04/{RUN}")], VISION),
        Break(
            _log("TEST01", "result_query_count", 10, "SingleStream"),
            [("C131", f"SingleStream/TEST01/{RUN}")], VISION,
        ),
    ],
    "C132": [
        Break(
            _no_verdict,
            [("C132", "Offline/TEST01/verify_accuracy.txt")], {**VISION, "division": "open"},
        ),
    ],
    "C130": [
        Break(
            _text("TEST09", "verify_output_len.txt", "Total samples: 6396", "Total samples: 990"),
            [("C130", "Offline/TEST09/verify_output_len.txt")], OSS,
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "case"), broken(BREAKS))
def test_one_thing_broken(rule: str, case: Break, grow: Grow) -> None:
    run_break(rule, case, grow)


def test_every_rule_is_broken_once() -> None:
    # C15x are of endpoints submissions and have a module of their own.
    assert {r.id for r in RULES if r.family == "C" and r.id < "C150"} == set(BREAKS)


@pytest.mark.parametrize("tree", [VISION, TOKENS, OSS, RANKING, SEEDS], ids=str)
def test_good_tree_has_no_finding(tree: dict[str, Any], grow: Grow) -> None:
    assert grow(**tree).findings(notes=True) == []


@pytest.mark.parametrize("round", ["v0.7", "v1.1", "v2.0"])
def test_old_pairs_are_judged(round: str, grow: Grow) -> None:
    """Before v2.1 TEST04 was a pair: A issues unique samples, B one sample."""
    tree = grow(round=round, **VISION)
    assert tree.findings() == []
    tree.set_log(_test(tree, "TEST04-B") / RUN, "result_samples_per_second", 1e9)
    assert ("C121", tree.relative(_test(tree, "TEST04-B") / RUN)) in tree.findings()


def test_runs_that_no_round_looked_at_only_warn(grow: Grow) -> None:
    """TEST06 and later are judged by their answers; what their logs show otherwise is a warning."""
    tree = grow(**OSS)
    place = _test(tree, "TEST07") / RUN
    for key, value in (
        ("effective_qsl_rng_seed", 7),
        ("effective_test_mode", "AccuracyOnly"),
        ("effective_scenario", "Server"),
    ):
        tree.set_log(place, key, value)
    tree.add_log(place, "error_runtime", "the SUT did not answer", is_error=True)
    found = {(f.rule, f.severity) for f in tree.check(select=("C",)).findings}
    assert found == {(rule, "warning") for rule in ("C117", "C118", "C119", "C120")}


def test_case_7_each_metric_has_its_own_tolerance(grow: Grow) -> None:
    """stable-diffusion-xl: FID may differ by 2 %, CLIP by 1 %."""
    tree = grow(benchmark="stable-diffusion-xl", category="edge", scenarios=["Offline"])
    fail = "{'FID_SCORE': '23.00', 'CLIP_SCORE': '31.70'}\n"
    _fallback("{'FID_SCORE': '23.34', 'CLIP_SCORE': '31.70'}\n", fail)(tree)
    assert tree.findings(select=("C106",)) == []
    _test(tree, "TEST01").joinpath("accuracy/compliance_accuracy.txt").write_text(
        "{'FID_SCORE': '23.34', 'CLIP_SCORE': '31.20'}\n"
    )
    report = tree.check(select=("C106",))
    assert [(f.rule, f.required) for f in report.findings] == [("C106", 1.0)]
    assert "CLIP_SCORE" in report.findings[0].message


def test_case_24_open_needs_no_compliance(grow: Grow) -> None:
    assert grow(division="open", **VISION).findings(select=("C",)) == []


def test_case_28_no_tests_no_folder(grow: Grow) -> None:
    """A benchmark without tests needs no compliance folder."""
    tree = grow(round="v3.1", benchmark="gptj-99", category="datacenter", scenarios=["Offline"])
    assert tree.findings(select=("C101",)) == []
    assert not (tree.root / tree.base / "compliance").exists()


def test_case_39_empty_performance_log(grow: Grow) -> None:
    tree = grow(**VISION)
    text = _test(tree, "TEST01") / "verify_accuracy.txt"
    lines = [
        "num_perf_log_entries = 0" if line.startswith("num_perf_log_entries") else line
        for line in text.read_text().splitlines()
        if not line.startswith("num_perf_log_qsl_idx_match")
    ]
    text.write_text("\n".join(lines) + "\n")
    report = tree.check(select=("C",))
    # The script stops at the empty log, so that the count of matches is not printed either.
    found = {(f.rule, f.severity, f.found): f.message for f in report.findings}
    assert set(found) == {("C123", "error", 0), ("C123", "warning", None)}
    assert "audit.config" in found["C123", "error", 0]


def test_case_115_latencies_are_compared_as_reciprocals(grow: Grow) -> None:
    """TEST04 of a single stream: a *lower* latency is faster and fails, a higher one does not."""
    tree = grow(**VISION)
    place = _test(tree, "TEST04", "SingleStream") / RUN
    value = tree.get_log(place, "early_stopping_latency_ss")
    tree.set_log(place, "early_stopping_latency_ss", value * 2)
    assert tree.findings(select=("C121",)) == []
    tree.set_log(place, "early_stopping_latency_ss", value // 2)
    assert [r for r, _ in tree.findings(select=("C121",))] == ["C121"]


def test_case_118_prose_is_not_read(grow: Grow) -> None:
    """Wording of the summary has no bearing on the comparison."""
    tree = grow(**VISION)
    summary = _test(tree, "TEST01", "SingleStream") / f"performance/run_1/{SUMMARY}"
    summary.write_text(summary.read_text().replace("90.0th", "90th"))
    assert tree.findings(select=("C121", "C122")) == []


def test_case_120_audit_conf_is_not_read(grow: Grow) -> None:
    """A file named audit.conf is not read: no warning, no seed, no sampling target."""
    tree = grow(**VISION)
    place = _test(tree, "TEST01") / RUN
    lines = [line for line in place.read_text().splitlines() if "audit.config" not in line]
    place.write_text("\n".join(lines) + "\n")
    tree.set_log(place, "effective_accuracy_log_rng_seed", 0)
    tree.set_log(place, "effective_accuracy_log_sampling_target", 0)
    assert [r for r, _ in tree.findings(select=("C",))] == ["C113", "C114", "C115"]


def test_case_121_sampling_with_replacement(grow: Grow) -> None:
    """A whole TEST07 log with only some of the samples."""
    tree = grow(**OSS)
    rows = [
        {"seq_id": i, "qsl_idx": i % 600, "data": "01000000", "token_count": 1} for i in range(990)
    ]
    tree.write(_test(tree, "TEST07") / "accuracy" / ACCURACY, json.dumps(rows))
    report = tree.check(select=("C130",))
    assert [(f.rule, f.found, f.required) for f in report.findings] == [("C130", 600, 990)]


def test_case_123_compliance_is_checked(grow: Grow) -> None:
    """Every result of the closed division has compliance rules applied to it."""
    tree = grow(**VISION)
    report = tree.check(select=("C",))
    assert report.results[0].rules_applied > 20


CORPUS = os.environ.get("ASSAY_CORPUS")


ODD: list[Any] = [None, "", [], {}, -1, "=1+1", 1e308, 10**400, True, DELETE]


@pytest.mark.parametrize("test", ["TEST01", "TEST04"])
def test_no_value_ends_a_rule(test: str, grow: Grow) -> None:
    tree = grow(**VISION)
    place = _test(tree, test) / RUN
    text = place.read_text()
    keys = {json.loads(line[9:])["key"] for line in text.splitlines()}
    wanted = ("effective_", "requested_", "result_", "qsl_", "sut_", "loadgen_version")
    for number, key in enumerate(sorted(k for k in keys if k.startswith(wanted))):
        tree.set_log(place, key, ODD[number % len(ODD)])
    assert "X001" not in {f.rule for f in tree.check(select=("C", "X")).findings}
    for value in ODD:
        place.write_text(text)
        for key in (
            "result_mean_latency_ns",
            "effective_scenario",
            "effective_test_mode",
            "result_samples_per_second",
            "effective_accuracy_log_rng_seed",
            "effective_performance_issue_same",
            "loadgen_version",
        ):
            tree.set_log(place, key, value)
        assert "X001" not in {f.rule for f in tree.check(select=("C", "X")).findings}, value


@pytest.mark.corpus
@pytest.mark.parametrize("round", ["v3.0", "v4.1", "v5.1", "v6.0"])
def test_published_results_have_no_compliance_error(round: str) -> None:
    from checker.engine import Options, check

    if not CORPUS or not Path(CORPUS, round).is_dir():
        pytest.skip(f"ASSAY_CORPUS names no folder with a tree {round}")
    tree = Path(CORPUS, round)
    report = check(tree, Options(round=round, select=("C",), jobs=1))
    assert [f.message for f in report.findings if f.severity == "error" and f.rule < "C150"] == []

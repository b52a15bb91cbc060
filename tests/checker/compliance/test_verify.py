"""``verify`` and ``write``: the verdict of one test's folder, and the texts of the round."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from checker.compliance import verify, write
from checker.discover import discover, locate
from checker.load import load_result
from checker.parse.reading import File, list_tree
from checker.parse.verify import Verification, read_verification
from schemas.load import load_round
from tests.conftest import Grow
from tests.trees import ACCURACY, DETAIL, GoodTree

RUN = f"performance/run_1/{DETAIL}"
EDGE: dict[str, Any] = {"benchmark": "resnet", "category": "edge"}
OSS: dict[str, Any] = {"benchmark": "gpt-oss-120b", "category": "datacenter"}


def parsed(path: Path) -> Verification:
    return read_verification(File(path.name, str(path), path.stat().st_size))


def run(tree: GoodTree, test: str, scenario: str = "Offline", **options: Any) -> Any:
    place = tree.result(scenario)
    return verify(
        test,
        tree.root / place.path,
        place.compliance(test),
        tree.round.name,
        tree.names["benchmark"],
        "Server" if scenario == "Interactive" else scenario,
        **options,
    )


def whole_logs(tree: GoodTree, test: str = "TEST01", count: int = 50) -> None:
    rows = [{"seq_id": i, "qsl_idx": i, "data": f"{i:08X}"} for i in range(count)]
    tree.write(tree.result("Offline").accuracy_log, json.dumps(rows))
    tree.write(
        tree.result("Offline").compliance(test) / "accuracy" / ACCURACY, json.dumps(rows[:20])
    )


def test_test01_passes_and_its_texts_are_read_back(grow: Grow) -> None:
    tree = grow(**EDGE)
    whole_logs(tree)
    outcome = run(tree, "TEST01")
    assert outcome.passed is True and outcome.failures == [], outcome
    folder = tree.result("Offline").compliance("TEST01")
    assert {p.name for p in write(outcome, folder)} == {
        "verify_accuracy.txt",
        "verify_performance.txt",
    }
    text = parsed(folder / "verify_accuracy.txt")
    assert text.passed and text.counts["num_perf_log_entries"] == 20
    assert parsed(folder / "verify_performance.txt").passed
    assert tree.findings(select=("C104", "C106", "C121", "C122", "C125")) == []


def test_test01_fails_by_its_answers(grow: Grow) -> None:
    tree = grow(**EDGE)
    whole_logs(tree)
    place = tree.result("Offline").compliance("TEST01") / "accuracy" / ACCURACY
    place.write_text(place.read_text().replace('"00000005"', '"FFFFFFFF"'))
    outcome = run(tree, "TEST01")
    assert outcome.passed is False and "1 of 20 answers differ" in outcome.failures[0]
    assert "TEST FAIL" in outcome.files["verify_accuracy.txt"]
    for name in ("baseline_accuracy.txt", "compliance_accuracy.txt"):
        tree.write(place.parent / name, "accuracy=76.000%, good=76, total=100\n")
    outcome = run(tree, "TEST01")
    assert outcome.passed is True and [d.metric for d in outcome.deltas] == ["acc"]
    tree.write(place.parent / "compliance_accuracy.txt", "accuracy=70.000%, good=70, total=100\n")
    outcome = run(tree, "TEST01")
    assert outcome.passed is False and "% apart" in outcome.failures[0]


def test_cut_logs_say_how_much_was_compared(grow: Grow) -> None:
    outcome = run(grow(**EDGE), "TEST01")
    assert outcome.failures == []
    assert outcome.answers is not None and not outcome.answers.whole
    assert any("were compared" in note for note in outcome.notes)


@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream", "Offline"])
def test_test04_in_each_scenario(scenario: str, grow: Grow) -> None:
    tree = grow(**EDGE)
    outcome = run(tree, "TEST04", scenario)
    assert outcome.passed is True and outcome.performance is not None
    stated = re.findall(r"score = (\S+)", outcome.files["verify_performance.txt"])
    assert [float(s) for s in stated] == [outcome.performance.reference, outcome.performance.test]


def test_test04_needs_its_setting(grow: Grow) -> None:
    tree = grow(**EDGE)
    tree.set_log(
        tree.result("Offline").compliance("TEST04") / RUN, "effective_performance_issue_same", False
    )
    outcome = run(tree, "TEST04")
    assert outcome.passed is False and "performance_issue_same was false" in outcome.failures[0]


@pytest.mark.parametrize("test", ["TEST04-A", "TEST04-B", "TEST05"])
def test_old_tests(test: str, grow: Grow) -> None:
    outcome = run(grow(round="v1.1", **EDGE), test)
    assert outcome.passed is True, outcome
    assert ("verify_performance.txt" in outcome.files) is (test != "TEST04-B")


def test_test06_text(grow: Grow) -> None:
    tree = grow(benchmark="llama2-70b-99", category="datacenter")
    for scenario, first in (("Offline", "skipped"), ("Server", "true")):
        if scenario not in tree.scenarios:
            continue
        outcome = run(tree, "TEST06", scenario)
        assert outcome.passed is True, outcome
        folder = tree.result(scenario).compliance("TEST06")
        write(outcome, folder)
        text = parsed(folder / "verify_accuracy.txt")
        assert {k: v[0] for k, v in text.checks.items()} == {
            "first token": first,
            "eos": "true",
            "sample length": "true",
        }


def test_test07_needs_a_score(grow: Grow) -> None:
    tree = grow(**OSS)
    assert run(tree, "TEST07", score=61.0).passed is True
    low = run(tree, "TEST07", score=50.0)
    assert low.passed is False and "at least 60.698" in low.failures[0]
    place = tree.result("Offline").compliance("TEST07") / "accuracy"
    place.joinpath("accuracy.txt").unlink(missing_ok=True)
    assert run(tree, "TEST07").passed is None


def test_test08_values(grow: Grow) -> None:
    tree = grow(benchmark="dlrm-v3", category="datacenter")
    rows = [{"seq_id": i, "qsl_idx": i, "data": "0000803F"} for i in range(20)]
    tree.write(tree.result("Offline").accuracy_log, json.dumps(rows))
    tree.write(
        tree.result("Offline").compliance("TEST08") / "accuracy" / ACCURACY, json.dumps(rows[:9])
    )
    outcome = run(tree, "TEST08")
    assert outcome.passed is True and "num_matched = 9" in outcome.files["verify_accuracy.txt"]


def test_test09_mean(grow: Grow) -> None:
    tree = grow(**OSS)
    outcome = run(tree, "TEST09")
    assert outcome.passed is True and "detail log" in " ".join(outcome.notes)
    folder = tree.result("Offline").compliance("TEST09")
    write(outcome, folder)
    assert parsed(folder / "verify_output_len.txt").values["mean output tokens"] > 1150
    assert tree.findings(select=("C104", "C112", "C130")) == []


def test_nothing_there_is_no_verdict(tmp_path: Path) -> None:
    for test in load_round("v6.0").compliance:
        outcome = verify(test, tmp_path, tmp_path, "v6.0", "resnet", "Offline")
        assert outcome.passed is None and outcome.files == {}, outcome


def test_unknown_test_says_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="TEST01"):
        verify("TEST99", tmp_path, tmp_path, "v6.0", "resnet", "Offline")


@pytest.mark.corpus
@pytest.mark.parametrize("round", ["v5.1", "v6.0"])
def test_test01_verdicts_of_published_rounds(round: str) -> None:
    """The recomputed verdict is the published one wherever the records are whole."""
    corpus = os.environ.get("ASSAY_CORPUS")
    if not corpus or not Path(corpus, round).is_dir():
        pytest.skip(f"ASSAY_CORPUS names no folder with a tree {round}")
    rules = load_round(round)
    root = Path(corpus, round)
    listing = list_tree(root)
    seen: Counter[str] = Counter()
    disagreements = []
    for plan in discover(listing, rules, locate(root, listing)).results:
        result = load_result(plan, rules)
        test = result.tests.get("TEST01")
        text = test.verifications.get("verify_accuracy.txt") if test is not None else None
        if test is None or text is None:
            continue
        published = text.passed
        seen["tests"] += 1
        # The text's own counts give its verdict ...
        counted = not (
            text.counts["num_perf_log_data_mismatch"] or text.counts["num_missing_qsl_idxs"]
        )
        if counted != published:
            disagreements.append((test.path, "counts", counted, published))
        # ... and so do the answers, as far as they were published.
        if test.answers is not None and test.answers.whole:
            seen["whole"] += 1
            if test.answers.passed != published:
                disagreements.append((test.path, "answers", test.answers.passed, published))
        elif test.answers is not None and test.answers.compared:
            seen["partly"] += 1
            if published and test.answers.passed is False:
                disagreements.append((test.path, "answers seen", False, published))
    print(round, dict(seen))
    assert seen["tests"] > 10 and disagreements == []

"""Llama 3.1 8B through `assay run`: the layouts of v6.0 and v6.1, checked and audited."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import assay
from assay.cli import main
from schemas import load_round
from tests.runner import llm_data
from tests.runner.openai_server import Scripted

pytest.importorskip("aiohttp", reason="the extra openai is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")
pytest.importorskip("rouge_score", reason="rouge-score is not installed")

# 30 samples in place of 13,368 and 3 s in place of 600: nothing else is wrong with it.
SMALL = [
    ("warning", "A116"),
    ("note", "A125"),
    ("error", "A112"),
    ("warning", "P127"),
    ("error", "P106"),
]


@pytest.mark.parametrize(("round", "scenario"), [("v6.0", "Server"), ("v6.1", "Interactive")])
def test_a_tree_of_a_language_model(round: str, scenario: str, tmp_path: Path) -> None:
    """ROUGE, TEST06 and the tokens' times; what the audit computes again from the logs agrees."""
    llm_data.llama(tmp_path / "data", 30)
    tree = tmp_path / "tree"
    answers = str(tmp_path / "data" / "answers.json.txt")
    with Scripted(
        models=("Llama-3.1-8B",),
        max_model_len=8192,
        answers=answers,
        burst=16,
        first_ms=5,
        token_ms=5,
    ) as server:
        code = main(
            [
                *("run", "--benchmark", "llama3.1-8b", "--round", round, "--division", "open"),
                *("--scenario", scenario, "--system-type", "datacenter", "--system", "scripted"),
                *("--data", str(tmp_path / "data"), "--url", server.url, "--compliance"),
                *("--min-duration", "3", "--target-qps", "220"),
                *("--out", str(tree), "--no-progress"),
            ]
        )
    assert code == 0
    (result,) = tree.glob(f"open/Assay/results/scripted/llama3.1-8b/{scenario}")
    assert {path.name for path in result.iterdir()} == {
        *("README.md", "TEST06", "accuracy", "measurements.json", "performance", "user.conf"),
    }
    assert (result / "TEST06" / "verify_accuracy.txt").read_text("utf-8").splitlines()[:3] == [
        "First token check pass: True",
        "EOS check pass: True",
        "Sample length check pass: True",
    ]
    report = assay.check(tree, round=round)
    assert [(f.severity, f.rule) for f in report.findings] == SMALL
    assert {a.metric: a.value for a in report.results[0].accuracy if a.metric != "GEN_LEN"} == {
        "ROUGE1": 100.0,
        "ROUGE2": 100.0,
        "ROUGEL": 100.0,
        "ROUGELSUM": 100.0,
    }
    audit = assay.audit(tree, round=round)
    published = load_round(round).published
    over = bool(published) and date.fromisoformat(str(published)) < date.today()
    # A round that is over has no runs of today: accuracy, performance and TEST06.
    assert [f.rule for f in audit.findings if f.rule.startswith("R")] == ["R117"] * 3 * over
    # Mean latency is mean TTFT plus the other tokens' times; token throughput follows from both.
    for rule in ("R132", "R133"):
        identity = assay.audit(tree, round=round, select=[rule])
        assert identity.findings == []
        assert identity.results[0].rules_applied > 0, f"{rule} had nothing to judge"

"""Llama 3.1 8B through `assay run`: the layouts of v6.0 and v6.1, checked and audited."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

import assay
from assay.cli import main
from schemas import load_round
from tests.runner import llm_data
from tests.runner.openai_server import Scripted
from tests.runner.patience import undisturbed

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
        command = [
            *("run", "--benchmark", "llama3.1-8b", "--round", round, "--division", "open"),
            *("--scenario", scenario, "--system-type", "datacenter", "--system", "scripted"),
            *("--data", str(tmp_path / "data"), "--url", server.url, "--compliance"),
            *("--min-duration", "3", "--target-qps", "220"),
            *("--out", str(tree), "--no-progress", "--overwrite"),
        ]
        # The limits are the round's: 500 ms to the first token in Interactive.
        code = undisturbed(lambda number: main(command), lambda code: code == 0)
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
    stated = json.loads((result / "measurements.json").read_text("utf-8"))
    assert stated["weight_transformations"] == (
        "none by this system: the model was run as the server has it"
    )
    readme = (result / "README.md").read_text("utf-8")
    assert "| Model | as the server has it, fp32 |" in readme
    assert "the data type of the server's weights is not known here" in readme
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


def test_accuracy_of_a_log_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`assay accuracy` reads the data folder of the run: table and tokenizer."""
    llm_data.llama(tmp_path / "data", 3)
    answers = json.loads((tmp_path / "data" / "answers.json.txt").read_text("utf-8"))
    log = [
        {
            "seq_id": index,
            "qsl_idx": index,
            "data": b"".join(token.to_bytes(4, "little") for token in ids).hex(),
            "token_count": len(ids),
        }
        for index, ids in enumerate(answers)
    ]
    (tmp_path / "mlperf_log_accuracy.json").write_text(json.dumps(log), "utf-8")
    command = ["accuracy", str(tmp_path), "--benchmark", "llama3.1-8b", "--no-progress"]
    assert main([*command, "--data", str(tmp_path / "data")]) == 1  # three of 13,368
    told = capsys.readouterr()
    assert "{'rouge1': 100.0000, 'rouge2': 100.0000, 'rougeL': 100.0000" in told.out
    assert "'gen_len': 1833, 'gen_num': 3, 'tokens_per_sample': 103.0}" in told.out
    assert "only 3 samples were scored; the data set has 13,368" in told.err
    assert main([*command, "--data", str(tmp_path), "--grader", "true"]) == 2
    assert "llama3.1-8b has none" in capsys.readouterr().err

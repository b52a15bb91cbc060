"""The accuracy patterns find their number in lines as the reference scripts print them."""

from __future__ import annotations

import re

import pytest

from schemas.load import load_round, round_names

ROUGE = (
    "{'rouge1': 44.7474, 'rouge2': 22.3568, 'rougeL': 29.1367, 'rougeLsum': 41.0003, "
    "'gsm8k': 73.54, 'mbxp': 60.22, 'gen_len': 27847233, 'gen_num': 24576, "
    "'gen_tok_len': 6716564, 'tokens_per_sample': 273.3}"
)
LINES = {
    "acc": ("accuracy=76.456%, good=38228, total=50000", 76.456),
    "mAP": ("mAP=37.572%", 37.572),
    "bleu": ("BLEU: 23.66", 23.66),
    "AUC": ("AUC=80.126%, good=26443, total=33006", 80.126),
    "DICE": ("Accuracy: mean = 0.86173, kidney tumor = 0.79346", 0.86173),
    "E2E_ACCURACY": ("Accuracy: 34.12", 34.12),
    "WER": ("Word Error Rate: 0.0745%, accuracy=92.5478%", 92.5478),
    "ACCURACY": ("Word Error Rate: 2.14794%, accuracy=97.85205135281745%", 97.85205135281745),
    "F1": ('{"exact_match": 83.46263, "f1": 90.78221}', 90.78221),
    "F1_HIERARCHICAL": ('{"f1": 0.7884930210985771}', 0.7884930210985771),
    "DLRM_NE": ("metric/lifetime_ne/rating: 0.8675504587396435", 0.8675504587396435),
    "DLRM_ACC": ("metric/lifetime_accuracy/rating: 0.6964261", 0.6964261),
    "DLRM_AUC": ("metric/lifetime_gauc/rating: 0.7862891", 0.7862891),
    "ROUGE1": (ROUGE, 44.7474),
    "ROUGE2": (ROUGE, 22.3568),
    "ROUGEL": (ROUGE, 29.1367),
    "ROUGELSUM": (ROUGE, 41.0003),
    "gsm8k_accuracy": (ROUGE, 73.54),
    "mbxp_accuracy": (ROUGE, 60.22),
    "GEN_LEN": (ROUGE, 27847233.0),
    "TOKENS_PER_SAMPLE": (ROUGE, 273.3),
    "exact_match": ("{'exact_match': 90.0417, 'rougeL': 21.843, 'gen_num': 8313}", 90.0417),
    "CLIP_SCORE": (
        "Accuracy Results: {'FID_SCORE': '23.7582', 'CLIP_SCORE': '31.7967'}",
        31.7967,
    ),
    "FID_SCORE": ("Accuracy Results: {'FID_SCORE': 23.7582, 'CLIP_SCORE': 31.7967}", 23.7582),
    "vbench_score": ("{'vbench_score': 69.8098}", 69.8098),
}
PATTERNS = sorted(
    {pair for name in round_names() for pair in load_round(name).accuracy_patterns.items()}
)
"""Each pattern once, with its metric: most rounds share them."""


def number(name: str, metric: str, line: str) -> float | None:
    found = re.search(load_round(name).accuracy_patterns[metric], line)
    return float(found.group("v")) if found else None


@pytest.mark.parametrize(("metric", "pattern"), PATTERNS)
def test_pattern_finds_the_number_in_its_line_alone(metric: str, pattern: str) -> None:
    line, value = LINES[metric]
    found = re.search(pattern, line)
    assert found is not None and float(found.group("v")) == value
    for other in ("", "hash=0123456789abcdef", "no results here", "accuracy", "Results"):
        assert re.search(pattern, other) is None, other


def test_old_rounds_are_as_strict_as_their_checkers() -> None:
    assert number("v1.1", "AUC", "AUC = 79.9") is None
    assert number("v1.1", "F1", "{'exact_match': 80.1, 'f1': 90.1}") is None
    assert number("v2.0", "F1", "{'exact_match': 80.1, 'f1': 90.1}") == 90.1
    assert number("v4.1", "acc", '{"accuracy": 0.7286}') is None
    assert number("v5.0", "acc", '{"accuracy": 0.7286}') == 0.7286
    assert number("v5.0", "mAP", "{'Car': 0.6, 'Total': 0.5425}") == 0.5425

"""Tokens reported wrongly, by the real LoadGen: VALID to it, an error to every LLM round's check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import assay
from tests.checker.token_misuse import KINDS

ROOT = Path(__file__).parents[2]
NO_COUNT = "n_tokens argument missing or attempted to record 0 as number of tokens"
WANTED = {
    "none": {},
    "zero": {"P103": NO_COUNT, "P144": "time per output token"},
    "absent": {"P103": NO_COUNT, "P144": "time per output token"},
    "one": {"P103": "Number of tokens need to be greater than 1", "P144": "time per output token"},
    "no-first": {"P103": "before it's first token latency", "P144": "time to first token"},
}
ROUNDS = {
    "v4.0": "llama2-70b-99", "v4.1": "mixtral-8x7b", "v5.0": "llama3.1-405b", "v5.1": "deepseek-r1",
    "v6.0": "llama3.1-8b", "v6.1": "gpt-oss-120b", "demo": "stories",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_reported_wrongly(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "performance" / "run_1"
    command = [sys.executable, "-m", "tests.checker.token_misuse", kind, str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    detail = (folder / "mlperf_log_detail.txt").read_text("utf-8")
    assert '"key": "result_validity", "value": "VALID"' in detail
    for round, benchmark in ROUNDS.items():
        report = assay.check(
            folder, round=round, benchmark=benchmark, scenario="Server", select=["P103", "P144"]
        )
        # X004: the log is one of today's LoadGen, whatever the round.
        found = {f.rule: f for f in reversed(report.findings) if f.rule != "X004"}
        assert set(found) == set(WANTED[kind]), (round, report.findings)
        for rule, text in WANTED[kind].items():
            assert text in found[rule].message, round
            assert found[rule].severity == "error", round

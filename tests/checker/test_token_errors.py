"""Tokens reported wrongly, by the real LoadGen: VALID to it, an error to every LLM round's check."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import assay
from schemas import load_round, round_names
from schemas.report import Finding
from tests.checker.token_misuse import KINDS

ROOT = Path(__file__).parents[2]
SPEED = {"P119", "P120"}
"""Whether latencies met their limits."""
NO_COUNT = "n_tokens argument missing or attempted to record 0 as number of tokens"
WANTED = {
    "zero": {"P103": NO_COUNT, "P144": "time per output token"},
    "absent": {"P103": NO_COUNT, "P144": "time per output token"},
    "one": {"P103": "Number of tokens need to be greater than 1", "P144": "time per output token"},
    "no-first": {"P103": "before it's first token latency", "P144": "time to first token"},
}
LANGUAGE = [
    (round, name)
    for round in (*(name for name in round_names() if name >= "v4.0"), "demo")
    for name, benchmark in load_round(round).benchmarks.items()
    if "Server" in benchmark.scenarios and benchmark.scenarios["Server"].ttft_ms
]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A Server run of each kind."""
    made = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind) / "performance" / "run_1"
        command = [sys.executable, "-m", "tests.checker.token_misuse", kind, str(folder)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=60)
        detail = (folder / "mlperf_log_detail.txt").read_text("utf-8")
        assert '"key": "result_validity", "value": "VALID"' in detail
        made[kind] = folder
    return made


def found(folder: Path, round: str, benchmark: str) -> list[Finding]:
    """What does not depend on how fast this machine was."""
    report = assay.check(folder, round=round, benchmark=benchmark, scenario="Server")
    return [finding for finding in report.findings if finding.rule not in SPEED]


def test_every_round_with_language_models_is_here() -> None:
    """Llama 2 70B came with v4.0; since then each round has one to four of them with limits."""
    counts = Counter(round for round, _ in LANGUAGE)
    assert set(counts) == {"v4.0", "v4.1", "v5.0", "v5.1", "v6.0", "v6.1", "demo"}
    assert {"deepseek-r1", "gpt-oss-120b", "llama3.1-8b"} <= {n for r, n in LANGUAGE if r == "v6.1"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "none"])
def test_tokens_reported_wrongly(kind: str, logs: dict[str, Path]) -> None:
    """Beside what is wrong with the same run of a sound system, exactly the errors of the tokens."""
    for round, benchmark in LANGUAGE:
        sound = Counter(f.rule for f in found(logs["none"], round, benchmark))
        findings = found(logs[kind], round, benchmark)
        more = Counter(f.rule for f in findings) - sound
        # LoadGen's mean over times that are not set overflows now and then: no order, another summary.
        noise = Counter(P131=1, P133=1) if kind == "no-first" else Counter()
        assert more - noise == Counter(WANTED[kind].keys()), (round, benchmark, findings)
        assert {"P103", "P144"}.isdisjoint(sound)
        for rule, text in WANTED[kind].items():
            (finding,) = (f for f in findings if f.rule == rule)
            assert text in finding.message, round
            assert finding.severity == "error", round

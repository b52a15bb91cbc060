"""DeepSeek-R1 and GPT-OSS-120B on a scripted server: accuracy, gate, performance and the round's tests.

The data are small and the runs short; the check says that, and nothing else.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import assay
from runner.benchmarks import get_benchmark
from runner.errors import DatasetError, RunFailed, SettingsError
from runner.grading import Grader
from runner.plan import Conduct, Execution, Inputs, Load, Plan, Tree, plan_for
from runner.reference import Outcome, run_benchmark
from schemas import load_round
from tests.runner import llm_data
from tests.runner.openai_server import Scripted
from tests.runner.patience import undisturbed

pytest.importorskip("aiohttp", reason="the extra openai is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")
ALL_PASS = f"{sys.executable} -c \"import sys; [print('true') for line in sys.stdin]\""


def planned(out: Path, url: str, round: str, benchmark: str, scenario: str, **conduct: Any) -> Plan:
    return plan_for(
        round,
        benchmark,
        scenarios=[scenario],
        tree=Tree(out=out / "tree", system="scripted", system_type="datacenter"),
        inputs=Inputs(data=out / "data"),
        # A Server run must keep up on a busy machine too; Offline's hint may be too high.  500 queries take
        # longer than 50 ms on any machine.
        load=Load(
            min_duration_ms=50,
            min_query_count=500,
            target_qps=80.0 if scenario == "Server" else 1500.0,
        ),
        conduct=Conduct(compliance=True, attempts=1, **conduct),
        execution=Execution(backend="openai", backend_options={"url": [url]}, workers=64),
    )


def measured(plan: Plan, count: int) -> Outcome:
    """The outcome with `count` samples in memory; the limits on the tokens' times are the round's."""
    plan = replace(plan, rules=replace(plan.rules, performance_sample_count=count))

    def attempt(number: int) -> Outcome:
        (outcome,) = run_benchmark(replace(plan, tree=replace(plan.tree, overwrite=number > 1)))
        return outcome

    return undisturbed(attempt, lambda outcome: outcome.status != "invalid")


def server(out: Path, name: str) -> Scripted:
    answers = str(out / "data" / "answers.json.txt")
    return Scripted(models=(name,), max_model_len=50_000, answers=answers, burst=640)


# Too few samples in memory (P127, P112) and in the accuracy run (A112, A116), too short (P106), and one
# scenario of those that the benchmark has (S116, S117).
SMALL = {
    ("v6.0", "Server"): [
        ("error", "S116"), ("warning", "A116"), ("error", "A112"), ("warning", "P127"), ("error", "P106"),
    ],
    ("v6.1", "Offline"): [
        ("error", "S117"), ("error", "A116"), ("error", "A112"), ("warning", "P127"), ("error", "P112"),
        ("error", "P106"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("round", "scenario"), [("v6.0", "Server"), ("v6.1", "Offline")])
def test_deepseek(round: str, scenario: str, tmp_path: Path) -> None:
    """Text in chat completions, tokens per sample within the round's bounds, TEST06."""
    llm_data.deepseek(tmp_path / "data", 30, 3886)
    with server(tmp_path, "DeepSeek-R1") as url:
        outcome = measured(planned(tmp_path, url.url, round, "deepseek-r1", scenario), 30)
    assert outcome.status == "valid", outcome.message
    assert outcome.score is not None and outcome.path is not None
    # The one answer with code is not run and counts as wrong: 29 of 30.
    assert outcome.score.line == (
        "{'exact_match': 96.6667, 'tokens_per_sample': 3886.0000, 'num-samples': 30}"
    )
    readme = (outcome.path / "README.md").read_text("utf-8")
    assert "exact_match is between 96.6667 and 100.0000" in readme
    assert [(test.name, test.passed) for test in outcome.tests] == [("TEST06", True)]
    first = "True" if scenario == "Server" else "Skipped"
    text = (outcome.path / "TEST06" / "verify_accuracy.txt").read_text("utf-8")
    assert text.startswith(f"First token check pass: {first}\nEOS check pass: True\n")
    report = assay.check(tmp_path / "tree", round=round)
    assert [(f.severity, f.rule) for f in report.findings] == SMALL[round, scenario]


def test_gates_on_all_metrics(tmp_path: Path) -> None:
    """Right answers of the wrong length: the round bounds the tokens per sample on both sides."""
    llm_data.deepseek(tmp_path / "data", 30, 300)
    with server(tmp_path, "DeepSeek-R1") as url:
        outcome = measured(planned(tmp_path, url.url, "v6.0", "deepseek-r1", "Offline"), 30)
    assert outcome.status == "gate-missed"
    assert outcome.message.startswith(
        "found TOKENS_PER_SAMPLE = 300; expected at least 3,497.6 and at most 4,274.85; the performance"
    )
    assert not (tmp_path / "tree").exists()


def test_gpt_oss(tmp_path: Path) -> None:
    """Three tables, code graded by a command, TEST07 on its own questions and TEST09 on 6,396 prompts."""
    llm_data.gpt_oss(tmp_path / "data", prompts=6396, questions=30, compliance=990, length=1278)
    with server(tmp_path, "gpt-oss-120b") as url:
        plan = planned(tmp_path, url.url, "v6.1", "gpt-oss-120b", "Offline", grader=ALL_PASS)
        outcome = measured(plan, 6396)
    assert outcome.status == "valid", outcome.message
    assert outcome.score is not None and outcome.path is not None
    assert (outcome.score.value, outcome.score.notes) == (100.0, ())
    assert [(test.name, test.passed) for test in outcome.tests] == [
        ("TEST07", True),
        ("TEST09", True),
    ]
    seventh = (outcome.path / "TEST07" / "verify_accuracy.txt").read_text("utf-8")
    assert "Accuracy score: 100\nAccuracy threshold: 60.698\n" in seventh
    ninth = (outcome.path / "TEST09" / "verify_output_len.txt").read_text("utf-8")
    assert "Total samples: 6396\nMean output tokens: 1278.00\n" in ninth
    report = assay.check(tmp_path / "tree", round="v6.1")
    assert [(f.severity, f.rule) for f in report.findings] == [
        ("error", "S117"),
        ("error", "A116"),
        ("error", "A112"),
        ("error", "P112"),
        ("error", "P106"),
    ]


@pytest.mark.parametrize(
    ("name", "broken", "said"),
    [
        (
            "llama3.1-8b",
            "library",
            r'found no library for ROUGE .*: pip install "assay\[accuracy\]"',
        ),
        ("llama3.1-8b", "tokenizer", r"tokenizer\.json: cannot be read"),
        ("deepseek-r1", "tokenizer", r"tokenizer\.json: cannot be read"),
        ("deepseek-r1", "answer", r"sample 1 has no dataset and ground_truth"),
    ],
)
def test_what_scoring_lacks_is_said_before_anything_runs(
    name: str, broken: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accuracy run of a large model takes hours: they are not spent on answers that cannot be scored."""
    data = tmp_path / "data"
    if name == "deepseek-r1":
        llm_data.deepseek(data, 4, 40)
    else:
        llm_data.llama(data, 4)
    if broken == "library":
        monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    elif broken == "tokenizer":
        if name == "llama3.1-8b":
            pytest.importorskip("rouge_score", reason="rouge-score is not installed")
        (data / "tokenizer.json").write_text("{}")
    else:
        rows = json.loads((data / "data.json").read_text("utf-8"))
        del rows[1]["ground_truth"]
        (data / "data.json").write_text(json.dumps(rows), "utf-8")
    with server(tmp_path, name) as url:
        with pytest.raises(DatasetError, match=said):
            run_benchmark(planned(tmp_path, url.url, "v6.1", name, "Offline"))
        assert url.stamps() == []
    assert not (tmp_path / "tree").exists()


def test_code_that_nobody_runs(tmp_path: Path) -> None:
    """Ten of thirty answers are code: as wrong ones they miss the gate, and the message says why."""
    llm_data.gpt_oss(tmp_path / "data", prompts=30, questions=30, compliance=30, length=40)
    with server(tmp_path, "gpt-oss-120b") as url:
        outcome = measured(planned(tmp_path, url.url, "v6.0", "gpt-oss-120b", "Offline"), 30)
    assert outcome.status == "gate-missed"
    assert "10 of 30 answers are code that was not run and count as wrong" in outcome.message
    assert "--grader COMMAND" in outcome.message


def test_data_of_gpt_oss(tmp_path: Path) -> None:
    """Each run takes its own table; one file cannot be all of them."""
    llm_data.gpt_oss(tmp_path, prompts=4, questions=3, compliance=2, length=40)
    benchmark = get_benchmark("gpt-oss-120b")
    sizes = [
        len(benchmark.dataset_for(use, tmp_path)) for use in ("performance", "accuracy", "TEST07")
    ]
    assert sizes == [4, 3, 2]
    assert len(benchmark.dataset_for("TEST09", tmp_path)) == 4
    with pytest.raises(DatasetError, match="found one file; expected a folder"):
        benchmark.dataset_for("accuracy", tmp_path / "acc" / "acc_eval_tokenized.json")
    (tmp_path / "acc" / "acc_eval_compliance_gpqa.json").unlink()
    with pytest.raises(
        DatasetError, match=r"found no file; expected one .* with compliance in its"
    ):
        benchmark.dataset_for("TEST07", tmp_path)


@pytest.mark.parametrize("name", ["deepseek-r1", "gpt-oss-120b"])
def test_parameters_are_the_round_s(name: str) -> None:
    benchmark = get_benchmark(name)
    assert benchmark.generation is not None
    for round in ("v6.0", "v6.1"):
        known = load_round(round).benchmarks[name]
        assert known.conf_model == benchmark.loadgen_model
        assert known.performance_sample_count == benchmark.performance_sample_count
        assert known.accuracy[0].metric == benchmark.metric


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("false", "found exit status 1; expected 0"),
        ("no-such-grader", "cannot be started"),
        ("echo true", "found 1 words of output; expected 2 lines, each true or false"),
        ("echo true maybe", "found 2 words of output"),
    ],
)
def test_graders_that_fail(command: str, said: str) -> None:
    with pytest.raises(RunFailed, match=said):
        Grader(command)([("q1", "print(1)"), ("q2", "")])


def test_what_a_grader_gets() -> None:
    """Each question's id and program, in order; the program itself is not run by us."""
    script = "import json, sys; [print(json.dumps(json.loads(l)['question_id'] == 'q2')) for l in sys.stdin]"
    assert Grader(f'{sys.executable} -c "{script}"')([("q1", "x\ny"), ("q2", "")]) == [False, True]
    for command in ("", "'"):
        with pytest.raises(SettingsError, match="--grader"):
            Grader(command)


def test_a_grader_for_nothing(tmp_path: Path) -> None:
    plan = plan_for("demo", "digits", tree=Tree(out=tmp_path), conduct=Conduct(grader="true"))
    with pytest.raises(SettingsError, match="answers are code; digits has none"):
        run_benchmark(plan)


def test_accuracy_of_a_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`assay accuracy` reads the run's own data folder, and needs the grader too."""
    from assay.cli import main

    llm_data.deepseek(tmp_path / "data", 5, 20, code=1)
    answers = json.loads((tmp_path / "data" / "answers.json.txt").read_text("utf-8"))
    log = [
        {
            "seq_id": k,
            "qsl_idx": k,
            "data": b"".join(t.to_bytes(4, "little") for t in ids).hex(),
            "token_count": 20,
        }
        for k, ids in enumerate(answers)
    ]
    (tmp_path / "mlperf_log_accuracy.json").write_text(json.dumps(log), "utf-8")
    command = ["accuracy", str(tmp_path), "--benchmark", "deepseek-r1", "--round", "v6.1"]
    assert main([*command, "--data", str(tmp_path / "data"), "--no-progress"]) == 1
    told = capsys.readouterr()
    assert "{'exact_match': 80.0000, 'tokens_per_sample': 20.0000, 'num-samples': 5}" in told.out
    assert "1 of 5 answers are code that was not run" in told.err
    graded = [*command, "--data", str(tmp_path / "data"), "--grader", ALL_PASS]
    assert main([*graded, "--no-progress"]) == 1  # five samples are not the data set
    assert "'exact_match': 100.0000" in capsys.readouterr().out

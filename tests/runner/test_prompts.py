"""Data sets of prompts in the rounds' columns, and a whole run of a Llama benchmark on one of them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.benchmarks import get_benchmark
from runner.benchmarks.base import Benchmark
from runner.datasets.prompts import Table
from runner.errors import DatasetError
from runner.plan import Conduct, Execution, Inputs, Load, Tree, plan_for
from runner.reference import run_benchmark
from schemas import load_round
from tests.runner.openai_server import Scripted

pytest.importorskip("aiohttp", reason="the extra openai is not installed")
NAMES = ("llama2-70b-99", "llama2-70b-99.9", "llama3.1-8b", "llama3.1-8b-edge")


def table(path: Path | None) -> Table:
    return Table(path, tokens=("tok_input",), reference="output", longest=100)


def rows(count: int = 30) -> list[dict[str, Any]]:
    """The scripted server answers a prompt [N, …] with N tokens."""
    return [
        {"tok_input": [20 + k % 5, k], "output": " ".join(f"w{t}" for t in range(10, 29 + k % 5))}
        for k in range(count)
    ]


def write(folder: Path, kind: str, content: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"data{kind}"
    if kind == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(content), path)
    elif kind == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(content[0]))
            writer.writeheader()
            writer.writerows(
                {k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()}
                for row in content
            )
    elif kind == ".jsonl":
        path.write_text("\n".join(map(json.dumps, content)) + "\n\n", "utf-8")
    else:
        path.write_text(json.dumps(content), "utf-8")
    return path


def tokenizer(folder: Path) -> None:
    """Word "wN" is token N."""
    library = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    words = {f"w{n}": n for n in range(60) if n != 2} | {"</s>": 2}
    made = library.Tokenizer(library.models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    made.add_special_tokens(["</s>"])
    made.save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("kind", [".json", ".jsonl", ".parquet", ".csv"])
def test_tables(kind: str, tmp_path: Path) -> None:
    if kind == ".parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    found = table(write(tmp_path, kind, rows()))
    assert len(found) == 30
    assert found.prompt(7).tokens == [22, 7]
    assert found.references[29] == rows()[29]["output"]
    assert found.place == tmp_path
    assert len(table(tmp_path)) == 30  # the folder with it


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"output": "a"}, r"1 has no usable prompt; expected tok_input \(1 to 99 token ids\)\."),
        ({"tok_input": [], "output": "a"}, "no usable prompt"),
        ({"tok_input": [1] * 100, "output": "a"}, "no usable prompt"),
        ({"tok_input": [-1], "output": "a"}, "no usable prompt"),
        ({"tok_input": [True], "output": "a"}, "no usable prompt"),
        ({"tok_input": [1.0], "output": "a"}, "no usable prompt"),
        ({"tok_input": [1], "output": None}, "sample 1 has no output; expected a text"),
    ],
)
def test_rows_that_are_no_samples(row: dict[str, Any], said: str, tmp_path: Path) -> None:
    path = write(tmp_path, ".json", [rows()[0], row])
    with pytest.raises(DatasetError, match=said):
        table(path)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    """A pickle is refused, whatever is in it: reading it would run its code."""
    for name, content, said in (
        ("a.json", b"{}", "it is not a list of objects"),
        ("b.json", b"[" * 200_000, "cannot be read"),
        ("c.jsonl", b"\xff", "cannot be read"),
        ("d.parquet", b"PAR1", "cannot be read"),
        ("e.json", b"[]", "found no sample"),
        ("g.csv", b"tok_input,output\n[1]\n", "row 2 has another number of cells"),
        ("h.csv", b"tok_input,output\n[1,a\n", "cannot be read|no usable prompt"),
        ("i.txt", b"", "its name does not end in .json"),
        ("f.pkl", b"cos\nsystem\n", "found a pickle; expected .json, .jsonl, .parquet, .csv"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DatasetError, match=said):
            table(tmp_path / name)
    with pytest.raises(DatasetError, match="expected --data FOLDER"):
        table(None)
    several = tmp_path / "several"
    for name in ("a", "b"):
        write(several, ".json", rows()).rename(several / f"{name}.json")
    with pytest.raises(DatasetError, match=r"found a\.json, b\.json; expected one .* itself"):
        table(several)
    (several / "b.json").rename(several / "tokenizer_config.json")  # a model's, not data
    assert len(table(several)) == 30
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="found no file; expected one file"):
        table(tmp_path / "empty")


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_the_round_s(name: str) -> None:
    """LoadGen knows them by other names: a wrong one silently has no token settings."""
    benchmark = get_benchmark(name)
    assert benchmark.generation is not None
    for round in ("v6.0", "v6.1"):
        known = load_round(round).benchmarks.get(name)
        if known is None:
            assert (round, name) == ("v6.1", "llama2-70b-99")  # v6.1 has 99.9 alone
            continue
        assert known.conf_model == benchmark.loadgen_model
        assert known.performance_sample_count == benchmark.performance_sample_count
        assert known.accuracy[0].metric == benchmark.metric


def small(benchmark: Benchmark) -> Benchmark:
    return replace(benchmark, performance_sample_count=30)


def test_llama_on_a_scripted_server(tmp_path: Path) -> None:
    """Prompts as token ids, ROUGE of the decoded log, limits of the round, v6.1's tree."""
    pytest.importorskip("rouge_score", reason="rouge-score is not installed")
    write(tmp_path / "data", ".json", rows())
    tokenizer(tmp_path / "data")
    with Scripted(models=("Llama-3.1-8B-Instruct",), max_model_len=8192) as server:
        plan = plan_for(
            "v6.1",
            "llama3.1-8b",
            scenarios=["Interactive"],
            tree=Tree(out=tmp_path / "tree", system="scripted", division="open"),
            inputs=Inputs(data=tmp_path / "data"),
            load=Load(min_duration_ms=300, min_query_count=50, target_qps=200.0),
            execution=Execution(
                backend="openai", backend_options={"url": [server.url]}, workers=64
            ),
            conduct=Conduct(early_stop=False),
        )
        rules = replace(plan.rules, performance_sample_count=30)
        (outcome,) = run_benchmark(replace(plan, rules=rules))
    assert outcome.score is not None, outcome.message
    assert (outcome.score.metric, outcome.score.value) == ("ROUGE1", 100.0)
    assert "'tokens_per_sample': 22.0" in outcome.score.line
    assert outcome.performance_run is not None
    detail = outcome.performance_run.detail
    assert detail["requested_use_token_latencies"] is True
    assert detail["requested_server_ttft_latency"] == 500_000_000  # Interactive's, not Server's
    assert detail["requested_server_tpot_latency"] == 30_000_000
    assert detail["effective_sample_concatenate_permutation"] is True
    assert outcome.path is not None
    assert outcome.path.name == "Interactive"
    conf = (outcome.path / "user.conf").read_text("utf-8")
    assert "llama3_1-8b-interactive.Server.target_qps = 200" in conf
    readme = (outcome.path / "README.md").read_text("utf-8")
    assert "(limit 500 ms)" in readme
    assert "expected a name with" not in readme

"""Family A: a good tree has no finding; one thing broken gives exactly what is listed here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checker.model import AccuracyRun, Result, System
from checker.parse.accuracy_txt import read_accuracy
from checker.parse.reading import File, Folder
from checker.rules.accuracy import scores
from schemas import load_round, round_names
from schemas.round import Round
from tests.checker.rules.breaking import Break, broken, run_break
from tests.conftest import Grow
from tests.trees import DELETE, GoodTree, accuracy_lines, metric_values, printed

PLAIN: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "edge"}
OLDEST: dict[str, Any] = {"round": "v0.5", "benchmark": "resnet"}
OPEN: dict[str, Any] = {**PLAIN, "division": "open"}
TOKENS: dict[str, Any] = {"benchmark": "llama2-70b-99", "category": "datacenter"}
TOKENS_OPEN: dict[str, Any] = {**TOKENS, "division": "open"}
IMAGES: dict[str, Any] = {"benchmark": "stable-diffusion-xl", "category": "edge"}
VIDEOS: dict[str, Any] = {"benchmark": "wan-2.2-t2v-a14b", "category": "datacenter"}
GRAPH: dict[str, Any] = {"round": "v6.0", "benchmark": "rgat", "category": "datacenter"}
VOLUMES: dict[str, Any] = {"benchmark": "3d-unet-99", "category": "edge"}
SPEECH: dict[str, Any] = {"benchmark": "whisper", "category": "edge"}
TEXT = "Offline/accuracy/accuracy.txt"
LOG = "Offline/accuracy/mlperf_log_accuracy.json"


def _remove(name: str) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        place = tree.result("Offline").accuracy
        tree.remove(place / name if name else place)

    return change


def _text(
    change: Callable[[list[str]], list[str]], scenario: str = "Offline"
) -> Callable[[GoodTree], None]:
    """Change accuracy.txt: a function of its lines, the hash line last."""

    def run(tree: GoodTree) -> None:
        place = tree.result(scenario).accuracy_text
        lines = change(place.read_text().splitlines())
        tree.write(place, "\n".join(lines) + "\n")

    return run


def _only_hash(lines: list[str]) -> list[str]:
    return ["done", lines[-1]]


def _number(name: str, value: str) -> Callable[[list[str]], list[str]]:
    """Another value for one metric of a printed dictionary."""

    def change(lines: list[str]) -> list[str]:
        head, _, tail = lines[0].partition(f"'{name}': ")
        return [f"{head}'{name}': {value}{tail[tail.index(',') :]}", *lines[1:]]

    return change


def _without(name: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [lines[0].replace(f"'{name}'", "'other'"), *lines[1:]]


def _percent(text: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [text, *lines[1:]]


def _again(text: str) -> Callable[[list[str]], list[str]]:
    return lambda lines: [lines[0], text, *lines[1:]]


def _hash(text: str | None) -> Callable[[list[str]], list[str]]:
    return lambda lines: lines[:-1] if text is None else [*lines[:-1], text]


def _two_hashes(lines: list[str]) -> list[str]:
    return [*lines, "hash=" + "ab" * 32]


def _log(content: bytes) -> Callable[[GoodTree], None]:
    return lambda tree: tree.write(tree.result("Offline").accuracy_log, content) and None


def _cut_log(tree: GoodTree) -> None:
    place = tree.result("Offline").accuracy_log
    place.write_bytes(place.read_bytes()[:3000])


def _set(*changes: tuple[str, Any]) -> Callable[[GoodTree], None]:
    """Change records of the accuracy run's detail log."""

    def change(tree: GoodTree) -> None:
        for key, value in changes:
            tree.set_log(tree.result("Offline").accuracy_detail, key, value)

    return change


def _fewer_images(tree: GoodTree) -> None:
    folder = tree.result("SingleStream").accuracy / "images"
    next(iter(sorted(folder.iterdir()))).unlink()


def _no_videos(tree: GoodTree) -> None:
    tree.remove(tree.result("SingleStream").accuracy / "videos")


SHORT = b'[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "00" }\n]\n'
LONG = b'[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "00" }' + b" " * 10_300 + b"\n]\n"
EMPTY = "hash=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

BREAKS: dict[str, list[Break]] = {
    "A101": [
        Break(_remove(""), [("A101", "Offline")], PLAIN),
        Break(_remove("mlperf_log_detail.txt"), [("A101", "Offline/accuracy/detail")], PLAIN),
        Break(_remove(""), [("A101", "Offline")], OPEN),
    ],
    "A102": [Break(_remove("accuracy.txt"), [("A102", TEXT)], PLAIN)],
    "A103": [
        Break(_text(_only_hash), [("A103", TEXT)], PLAIN),
        Break(_text(_only_hash), [("A103", TEXT)], OPEN),
        Break(_text(_without("rouge2")), [("A103", TEXT)], TOKENS),
        Break(_text(_without("rouge2")), [("A103", TEXT)], TOKENS_OPEN),
    ],
    "A104": [
        Break(_text(_percent("accuracy=90.0%, good=450, total=500")), [("A104", TEXT)], PLAIN),
        Break(_text(_number("rougeL", "20.0")), [("A104", TEXT)], TOKENS),
        Break(
            _text(_number("tokens_per_sample", "100.0")), [("A104", TEXT), ("A123", TEXT)], TOKENS
        ),
    ],
    "A105": [
        Break(
            _text(_number("tokens_per_sample", "500.0")), [("A105", TEXT), ("A123", TEXT)], TOKENS
        ),
    ],
    "A106": [
        Break(_text(_percent("accuracy=nan%, good=0, total=500")), [("A106", TEXT)], PLAIN),
        Break(_text(_percent("accuracy=inf%, good=0, total=500")), [("A106", TEXT)], PLAIN),
        Break(
            _text(_percent("accuracy=-97.5%, good=0, total=500")),
            [("A104", TEXT), ("A106", TEXT)], PLAIN,
        ),
    ],
    "A107": [
        # One value on each side of the gate: which one counts decides, so it is an error.
        Break(_text(_again("accuracy=90.0%, good=450, total=500")), [("A107", TEXT)], PLAIN),
        Break(_text(_again("accuracy=98.0%, good=490, total=500")), [("A107", TEXT)], PLAIN),
    ],
    "A108": [
        Break(_text(_hash(None)), [("A108", TEXT)], PLAIN),
        Break(_text(_hash(None)), [("A108", TEXT)], OPEN),
    ],
    "A109": [
        Break(_text(_hash("hash=")), [("A109", TEXT)], PLAIN),
        Break(_text(_hash("hash=0123")), [("A109", TEXT)], PLAIN),
        Break(_text(_hash(EMPTY)), [("A109", TEXT)], PLAIN),
        Break(_text(_two_hashes), [("A109", TEXT)], PLAIN),
        # v0.5 requires no hash; one that is there must be whole.
        Break(_text(_hash("hash=0123"), "SingleStream"), [("A109", "SingleStream/accuracy/accuracy.txt")], OLDEST),
    ],
    "A110": [
        Break(_remove("mlperf_log_accuracy.json"), [("A110", LOG)], PLAIN),
        Break(_remove("mlperf_log_accuracy.json"), [("A110", LOG)], OPEN),
        Break(_log(b""), [("A110", LOG)], PLAIN),
    ],
    "A111": [Break(_log(LONG), [("A111", LOG), ("A124", LOG)], TOKENS)],
    "A112": [
        Break(
            _set(("effective_accuracy_sample_count", 100), ("qsl_reported_total_count", 100)),
            [("A112", "Offline/accuracy/detail")], PLAIN,
        ),
        Break(
            _set(("effective_accuracy_sample_count", DELETE), ("qsl_reported_total_count", DELETE)),
            [("A112", "Offline/accuracy/detail")], PLAIN,
        ),
    ],
    "A113": [
        Break(
            _set(("effective_test_mode", "PerformanceOnly"), ("requested_test_mode", "PerformanceOnly")),
            [
                ("A112", "Offline/accuracy/detail"),
                ("A113", "Offline/accuracy/detail"),
                ("P147", "Offline/accuracy/summary"),
                ("P147", "Offline/accuracy/summary"),
                ("P165", "Offline/accuracy/detail"),
            ],
            PLAIN,
        ),
        Break(_set(("effective_test_mode", DELETE)), [("A113", "Offline/accuracy/detail")], PLAIN),
    ],
    "A114": [
        Break(_set(("effective_schedule_rng_seed", 0)), [("A114", "Offline/accuracy/detail")], PLAIN),
    ],
    "A115": [
        Break(
            _set(("effective_scenario", "Server"), ("requested_scenario", "Server")),
            [("A115", "Offline/accuracy/detail"), ("P139", "Offline/accuracy/detail")], PLAIN,
        ),
    ],
    "A116": [
        Break(_text(_percent("accuracy=97.5%, good=390, total=400")), [("A116", TEXT)], PLAIN),
    ],
    "A117": [
        Break(_fewer_images, [("A117", "SingleStream/accuracy/images")], IMAGES, notes=True),
        Break(_no_videos, [("A117", "SingleStream/accuracy/videos")], VIDEOS, notes=True),
    ],
    "A121": [
        Break(_log(b"{}"), [("A121", LOG)], TOKENS),
        Break(_log(b"[]"), [("A121", LOG)], TOKENS),
        Break(_cut_log, [("A121", LOG)], TOKENS),
        Break(_cut_log, [("A121", LOG)], OPEN),
    ],
    "A122": [
        # inf#1989, 2123: R-GAT prints percent, its reference is a fraction.
        Break(_text(_percent("accuracy=0.7286%")), [("A104", TEXT), ("A122", TEXT)], GRAPH),
        Break(_text(_percent("accuracy=180.0%")), [("A122", TEXT)], PLAIN),
        Break(_text(_percent("accuracy=1.8%")), [("A122", TEXT)], OPEN),
        Break(
            _text(_number("tokens_per_sample", "29000.0")),
            [("A105", TEXT), ("A122", TEXT), ("A123", TEXT)], TOKENS,
        ),
    ],
    "A123": [
        Break(_text(_percent("accuracy=99.0%, good=496, total=500")), [("A123", TEXT)], PLAIN),
        # inf#1034: 3d-unet's values under wrong names.
        Break(
            _text(_percent("Accuracy: mean = 0.9350, kidney = 0.7898, tumor = 0.8624")),
            [("A123", TEXT)], VOLUMES,
        ),
        Break(_text(_percent("Word Error Rate: 2.5%, accuracy=98.0%")), [("A123", TEXT)], SPEECH),
    ],
    "A124": [
        Break(_log(SHORT), [("A124", LOG)], TOKENS),
        Break(_log(SHORT), [("A124", LOG)], OPEN),
    ],
    "A125": [
        Break(
            _text(_percent("accuracy=11.0%, good=55, total=500")), [("A125", TEXT)], OPEN, notes=True
        ),
    ],
    "A118": [
        Break(_remove("mlperf_log_summary.txt"), [("A118", "Offline/accuracy/summary")], PLAIN),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "case"), broken(BREAKS))
def test_break(rule: str, case: Break, grow: Grow) -> None:
    run_break(rule, case, grow)


def test_contradicting_values_are_errors_only_across_the_gate(grow: Grow) -> None:
    def severity(text: str) -> str:
        tree = grow(**PLAIN)
        _text(_again(text))(tree)
        return tree.check().findings[0].severity

    assert severity("accuracy=90.0%, good=450, total=500") == "error"
    assert severity("accuracy=98.0%, good=490, total=500") == "warning"


def test_open_results_have_no_gate_but_need_a_metric(grow: Grow) -> None:
    tree = grow(**OPEN)
    _text(_percent("accuracy=11.0%, good=55, total=500"))(tree)
    assert [rule for rule, _ in tree.findings(notes=True)] == ["A125"]
    row = next(r for r in tree.check().results if r.scenario == "Offline")
    assert [(s.metric, s.value, s.passed) for s in row.accuracy] == [("acc", 11.0, None)]


def test_every_value_just_at_its_bound_passes(grow: Grow) -> None:
    tree = grow(**PLAIN)
    gate = tree.round.benchmarks["digits"].accuracy[0]
    _text(_percent(f"accuracy={gate.bound!r}%"))(tree)
    assert tree.findings(notes=True) == []


def test_rgats_five_percent_is_invalid(grow: Grow) -> None:
    """inf#1989: 5 % against a reference of 0.7286 passed, for it is a larger number."""
    tree = grow(**GRAPH)
    _text(_percent("accuracy=5.000%, good=39419, total=788379"))(tree)
    report = tree.check()
    assert [(f.rule, f.severity) for f in report.findings if f.severity == "error"] == [
        ("A104", "error")
    ]
    (score,) = next(r for r in report.results if r.scenario == "Offline").accuracy
    assert (score.value, score.unit) == (5.0, "percent")
    assert score.target is not None and abs(score.target - 72.1314) < 1e-9


def _scales() -> list[Any]:
    """Every benchmark of every round, its values as accuracy.txt states them."""
    return [
        pytest.param(round, name, id=f"{round}-{name}")
        for round in round_names()
        for name in load_round(round).benchmarks
    ]


@pytest.mark.parametrize(("round_name", "name"), _scales())
def test_no_score_passes_on_another_scale(round_name: str, name: str, tmp_path: Path) -> None:
    """Divided by 100 or multiplied by it, no accuracy text is valid without a finding."""
    round = load_round(round_name)
    about = round.benchmarks[name]
    for scenario in {*about.accuracy_by_scenario, next(iter(about.scenarios))}:
        gates = about.accuracy_by_scenario.get(scenario, about.accuracy)
        values = metric_values(printed(round, gates), printed(round, about.accuracy_limits))
        for factor in (1.0, 0.01, 100.0):
            scaled = {metric: value * factor for metric, value in values.items()}
            found = _judged(round, name, scenario, _texts(scaled), tmp_path)
            assert bool(found) == (factor != 1.0), (scenario, factor, found)
            for metric in values:
                # Not even one metric alone.
                if factor != 1.0:
                    one = {**values, metric: values[metric] * factor}
                    assert _judged(round, name, scenario, _texts(one), tmp_path), (metric, factor)


def _texts(values: dict[str, float]) -> str:
    """As the scripts print them, each metric on its line, without what would contradict them."""
    return "\n".join(
        line.partition(", good=")[0]
        for metric, value in values.items()
        for line in _lines_of(metric, value)
    )


def _lines_of(metric: str, value: float) -> list[str]:
    forms = {
        "acc": f"accuracy={value!r}%", "mAP": f"mAP={value!r}%", "AUC": f"AUC={value!r}%",
        "F1": f'{{"exact_match": 80.0, "f1": {value!r}}}', "bleu": f"BLEU: {value!r}",
        "DICE": f"Accuracy: mean = {value!r}", "F1_HIERARCHICAL": f'{{"f1": {value!r}}}',
        "E2E_ACCURACY": f"Accuracy: {value!r}",
    }  # fmt: skip
    if metric in ("WER", "ACCURACY"):
        return [f"Word Error Rate: x, accuracy={value!r}%"]
    return [forms[metric]] if metric in forms else accuracy_lines({metric: value}, 1000)


def _judged(round: Round, name: str, scenario: str, text: str, tmp_path: Path) -> list[str]:
    """The findings of the rules about scores, on a closed result that states this text."""
    path = tmp_path / "accuracy.txt"
    path.write_text(text + "\n")
    file = File("accuracy/accuracy.txt", str(path), path.stat().st_size)
    result = Result(
        "closed",
        "S",
        System("closed", "S", "s", "s.json"),
        name,
        scenario,
        "r",
        round,
        name,
        round.benchmarks[name],
        scenario,
        Folder("r"),
        key="key",
    )
    run = AccuracyRun(result, "accuracy", "r/accuracy", None, text_path=file.path)
    run.text = read_accuracy(file, round.accuracy_patterns)
    result.accuracy = run
    wanted = [gate.metric for gate in [*result.gates, *result.limits]]
    assert all(run.text.values.get(metric) for metric in wanted), text
    return [
        p.message
        for rule in (
            scores.accuracy_gate,
            scores.accuracy_limit,
            scores.accuracy_scale,
        )
        for p in rule.check(result, round)
    ]

"""Which benchmark is scored how, and what data it needs: ``assay accuracy`` in one call.

The table ``BENCHMARKS`` is the documentation of the data files; ``needs(benchmark)`` says it in
words. A log whose middle was cut out cannot be scored again: the whole log in a ``--backup``
folder can, and its SHA-256 is compared with the one in accuracy.txt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from checker.accuracy import auc, bleu, detection, dice, exact, reasoning, rouge, squad, top1, wer
from checker.accuracy.gate import Gate, Verdict
from checker.accuracy.log import Progress, read_log
from checker.accuracy.problem import AccuracyError, Problem
from checker.accuracy.score import LogScore
from checker.accuracy.table import TOKENIZER, find_table, read_table, token_ids
from checker.accuracy.tokenizer import open_decoder
from checker.accuracy.truncate import LOG, SCORES, stated_hash

Scorer = Callable[[Path, Path | None, dict[str, Any]], tuple[LogScore, dict[str, float]]]


@dataclass(frozen=True, slots=True)
class Method:
    """How a family of benchmarks is scored.

    ``metric`` is its name, ``data`` says in words what ``data_dir`` must hold, ``score`` takes
    the log, the data and options and returns the score and its values by the rounds' names;
    ``graded``: whether answers may be code, for which there is the option ``grade_code``.
    """

    metric: str
    data: str
    score: Scorer
    graded: bool = False


@dataclass(frozen=True, slots=True)
class AccuracyResult:
    """A recomputed accuracy.

    ``scores`` are the values by the rounds' metric names (acc, mAP, bleu, F1, AUC, DICE, WER,
    ROUGE1, …) in the rounds' units; empty when the log cannot be scored, and ``notes`` say why.
    ``log`` is the file that was read, ``sha256`` its hash, ``stated_hash`` the one accuracy.txt
    has, ``hash_agrees`` whether they are equal (None where there is none to compare).
    ``samples`` is how many samples the score is of (None: it is of something else, such as pairs),
    ``missing`` how many of the ground truth have no record.
    """

    benchmark: str
    metric: str
    log: Path
    scores: dict[str, float]
    line: str | None
    verdicts: list[Verdict]
    truncated: bool
    sha256: str | None
    stated_hash: str | None
    hash_agrees: bool | None
    detail: LogScore | None = None
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    samples: int | None = None
    missing: int = 0


def _find(data: Path | None, names: Iterable[str], what: str) -> Path:
    """The first of ``names`` below ``data``, or ``data`` itself where it is a file."""
    listed = list(names)
    if data is None:
        raise AccuracyError(f"no data given: needed is {what}")
    if data.is_file():
        return data
    for name in listed:
        if (data / name).is_file():
            return data / name
    raise AccuracyError(f"{data}: none of {', '.join(listed)}; needed is {what}")


_VAL_MAP = "val_map.txt ('file label' a line, in the order of qsl_idx)"
_COCO = "annotations/instances_val2017.json, or another annotation file in COCO's form"
_OPEN = "annotations/openimages-mlperf.json, or another annotation file in COCO's form"
_BLEU = (
    "newstest2014.tok.bpe.32000.de or references.txt: reference sentences, one a line, in the "
    "order of qsl_idx"
)
_SQUAD = (
    "dev-v1.1.json, and for logs of logits features.jsonl (one object a line in the order of "
    "qsl_idx: id, offsets, context_max; see checker/accuracy/squad.py)"
)
_DLRM = (
    "nothing when the log holds (prediction, target) pairs; else day_23 and "
    "dlrm_trace_of_aggregated_samples.txt"
)
_UNET = (
    "a folder of true volumes: NAME.npy, NAME.nii.gz or NAME/segmentation.nii.gz, in the order "
    "of cases.txt (or of the names)"
)
_SPEECH = (
    "dev-clean-wav.json (objects with transcript or text) or transcripts.txt (one a line), in "
    "the order of qsl_idx"
)
_ROUGE = (
    "references.json (a list of texts in the order of qsl_idx), or the data set as JSON, JSON "
    "lines, Parquet or CSV with a column output; and, for logs of token ids, tokenizer.json of the "
    "model beside it (read with the 'tokenizers' library)"
)
_EXACT = "references.json: a list of lists of token ids, in the order of qsl_idx"
_REASONING = (
    "the data set as JSON, JSON lines, Parquet or CSV with the columns dataset and ground_truth, "
    "and tokenizer.json of the model beside it (read with the 'tokenizers' library)"
)


def _top1(
    log: Path, data: Path | None, options: dict[str, Any]
) -> tuple[LogScore, dict[str, float]]:
    labels = top1.read_val_map(_find(data, ("val_map.txt",), _VAL_MAP))
    score = top1.score_log(log, labels, **options)
    return score, {"acc": score.accuracy}


def _map(classes: detection.Classes, names: tuple[str, ...], what: str) -> Scorer:
    def score(
        log: Path, data: Path | None, options: dict[str, Any]
    ) -> tuple[LogScore, dict[str, float]]:
        truth = detection.read_annotations(_find(data, names, what))
        found = detection.score_log(log, truth, **{"classes": classes, **options})
        return found, {"mAP": found.map}

    return score


def _bleu(
    log: Path, data: Path | None, options: dict[str, Any]
) -> tuple[LogScore, dict[str, float]]:
    names = ("newstest2014.tok.bpe.32000.de", "references.txt", "newstest2014.de")
    score = bleu.score_log(log, bleu.read_references(_find(data, names, _BLEU)), **options)
    return score, {"bleu": score.bleu}


def _squad(
    log: Path, data: Path | None, options: dict[str, Any]
) -> tuple[LogScore, dict[str, float]]:
    file = _find(data, ("dev-v1.1.json",), _SQUAD)
    features = file.with_name("features.jsonl")
    windows = squad.read_features(features) if features.is_file() else None
    score = squad.score_log(log, squad.read_dataset(file), windows, **options)
    return score, {"F1": score.f1, "exact_match": score.exact_match}


def _auc(
    log: Path, data: Path | None, options: dict[str, Any]
) -> tuple[LogScore, dict[str, float]]:
    targets = None
    if data is not None and (data / "day_23").is_file():
        trace = _find(data, ("dlrm_trace_of_aggregated_samples.txt",), _DLRM)
        targets = auc.read_targets(data / "day_23", trace)
    score = auc.score_log(log, targets, **options)
    return score, {"AUC": score.auc}


def _dice(
    log: Path, data: Path | None, options: dict[str, Any]
) -> tuple[LogScore, dict[str, float]]:
    if data is None:
        raise AccuracyError(f"no data given: needed is {_UNET}")
    score = dice.score_log(log, dice.read_cases(data), **options)
    return score, {"DICE": score.mean}


def _speech(whisper: bool) -> Scorer:
    def score(
        log: Path, data: Path | None, options: dict[str, Any]
    ) -> tuple[LogScore, dict[str, float]]:
        file = _find(data, ("transcripts.txt", "transcripts.json", "dev-clean-wav.json"), _SPEECH)
        chosen = dict(options)
        if whisper:
            chosen.setdefault("alphabet", wer.WHISPER_ALPHABET)
            if "normalise" not in chosen:
                chosen["normalise"] = wer.whisper_normaliser()
        found = wer.score_log(log, wer.read_transcripts(file), **chosen)
        return found, {"WER": found.accuracy, "ACCURACY": found.accuracy}

    return score


def _rouge(
    log: Path, data: Path | None, options: dict[str, Any]
) -> tuple[LogScore, dict[str, float]]:
    file = _table(data, _ROUGE, "references.json")
    chosen = {**_decoding(file), **options}
    score = rouge.score_log(log, _texts(file), **chosen)
    values = {
        "ROUGE1": score.rouge1,
        "ROUGE2": score.rouge2,
        "ROUGEL": score.rouge_l,
        "ROUGELSUM": score.rouge_lsum,
        "GEN_LEN": float(score.gen_len),
    }
    if score.tokens_per_sample is not None:
        values["TOKENS_PER_SAMPLE"] = score.tokens_per_sample
    return score, values


def _table(data: Path | None, what: str, name: str = "", **parts: str) -> Path:
    """The file of that name, or the only table in a folder."""
    if data is None:
        raise AccuracyError(f"no data given: needed is {what}")
    if name and (data / name).is_file():
        return data / name
    try:
        return find_table(data, **parts)
    except AccuracyError as error:
        raise AccuracyError(f"{error} Needed is {what}.") from error


def _decoding(file: Path, *, special: bool = False) -> dict[str, Any]:
    """The option `decode`, where a tokenizer is beside the data or in the folder above."""
    for folder in (file.parent, file.parent.parent):
        if (folder / TOKENIZER).is_file():
            return {"decode": open_decoder(folder / TOKENIZER, special=special)}
    return {}


def _texts(file: Path) -> list[str]:
    """Reference texts: a JSON list of them, or the column output of a table."""
    try:
        if file.suffix == ".json":
            found = json.loads(file.read_text(encoding="utf-8"))
            if isinstance(found, list) and not any(isinstance(entry, dict) for entry in found):
                return [str(text) for text in found]
        return [str(row["output"]) for row in read_table(file)]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, AccuracyError):
            raise
        raise AccuracyError(f"{file}: found no reference texts ({error}); expected {_ROUGE}") from (
            error
        )


def _exact(
    log: Path, data: Path | None, options: dict[str, Any]
) -> tuple[LogScore, dict[str, float]]:
    chosen = dict(options)
    references = chosen.pop("references", None)
    if references is None:
        file = _find(data, ("references.json",), _EXACT)
        try:
            references = [token_ids(ids) for ids in json.loads(file.read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise AccuracyError(f"{file}: cannot be read ({error}); expected {_EXACT}") from error
        if None in references:
            raise AccuracyError(f"{file}: found something else; expected {_EXACT}")
    score = exact.score_log(log, references, **chosen)
    return score, {
        "exact_match": score.exact_match,
        "TOKENS_PER_SAMPLE": score.tokens_per_sample,
    }


def _reasoning(*, channels: bool) -> Scorer:
    """channels: whether answers come in GPT-OSS's channels, whose marks are special tokens."""
    parts = {"part": "acc", "without": "compliance"} if channels else {}

    def score(
        log: Path, data: Path | None, options: dict[str, Any]
    ) -> tuple[LogScore, dict[str, float]]:
        file = _table(data, _REASONING, **parts)
        chosen = {**_decoding(file, special=channels), **options}
        if "decode" not in chosen:
            raise AccuracyError(f"{file.parent}: found no {TOKENIZER}; needed is {_REASONING}")
        found = reasoning.score_log(log, reasoning.read_questions(file), **chosen)
        return found, {
            "exact_match": found.exact_match,
            "TOKENS_PER_SAMPLE": found.tokens_per_sample,
        }

    return score


_COCO_NAMES = ("annotations/instances_val2017.json", "instances_val2017.json", "annotations.json")
_OPEN_NAMES = ("annotations/openimages-mlperf.json", "openimages-mlperf.json", "annotations.json")

METHODS: Final[dict[str, Method]] = {
    "top1": Method("acc", _VAL_MAP, _top1),
    "map": Method("mAP", _COCO, _map("auto", _COCO_NAMES, _COCO)),
    "map-direct": Method("mAP", _COCO, _map("direct", _COCO_NAMES, _COCO)),
    "map-inverse": Method("mAP", _COCO, _map("inverse", _COCO_NAMES, _COCO)),
    "map-openimages": Method("mAP", _OPEN, _map("direct", _OPEN_NAMES, _OPEN)),
    "bleu": Method("bleu", _BLEU, _bleu),
    "squad": Method("F1", _SQUAD, _squad),
    "auc": Method("AUC", _DLRM, _auc),
    "dice": Method("DICE", _UNET, _dice),
    "wer": Method("WER", _SPEECH, _speech(False)),
    "wer-whisper": Method("ACCURACY", _SPEECH, _speech(True)),
    "rouge": Method("ROUGE1", _ROUGE, _rouge),
    "exact": Method("exact_match", _EXACT, _exact),
    "reasoning": Method("exact_match", _REASONING, _reasoning(channels=False), graded=True),
    "reasoning-channels": Method("exact_match", _REASONING, _reasoning(channels=True), graded=True),
}

BENCHMARKS: Final[dict[str, str]] = {
    "resnet": "top1",
    "resnet50": "top1",
    "mobilenet": "top1",
    "ssd-small": "map-direct",
    "ssd-mobilenet": "map-direct",
    "ssd-large": "map-inverse",
    "ssd-resnet34": "map-inverse",
    "retinanet": "map-openimages",
    "yolo-95": "map",
    "yolo-99": "map",
    "gnmt": "bleu",
    "scenes": "map-direct",
    "phrasebook": "bleu",
    "bert": "squad",
    "dlrm": "auc",
    "dlrm-v2": "auc",
    "3d-unet": "dice",
    "rnnt": "wer",
    "whisper": "wer-whisper",
    "gptj": "rouge",
    "gpt3": "rouge",
    "llama3.1-8b": "rouge",
    "llama3_1-8b": "rouge",
    "llama3.1-8b-edge": "rouge",
    "llama2-70b": "rouge",
    "deepseek-r1": "reasoning",
    "gpt-oss-120b": "reasoning-channels",
    "stories": "exact",
}
"""Benchmarks (with or without -99, -99.9) and how they are scored. Every other benchmark of the
rounds needs a judge beyond metric and text (code execution, image models)."""


def method(benchmark: str) -> Method:
    """How a benchmark (or a method by its own name) is scored.

    Raises ``AccuracyError`` for one that is not in the table.
    """
    name = benchmark.lower()
    for form in (name, name.removesuffix("-99.9"), name.removesuffix("-99")):
        if form in METHODS:
            return METHODS[form]
        if form in BENCHMARKS:
            return METHODS[BENCHMARKS[form]]
    known = ", ".join(sorted(BENCHMARKS))
    raise AccuracyError(f"{benchmark}: its accuracy cannot be recomputed here; known are {known}")


def needs(benchmark: str) -> str:
    """What ``data_dir`` must hold for a benchmark, in words."""
    return method(benchmark).data


def find_log(run: Path | str) -> Path:
    """The accuracy log of a run: the file itself, its folder, or a result with ``accuracy/``.

    Raises ``AccuracyError`` when there is none.
    """
    run = Path(run)
    for path in (run, run / LOG, run / "accuracy" / LOG):
        if path.is_file():
            return path
    raise AccuracyError(f"{run}: no {LOG} here or in accuracy/")


def find_backup(log: Path, backup: Path | str) -> Path | None:
    """The whole log that belongs to ``log``: a file, or in a folder that mirrors the tree."""
    backup = Path(backup)
    if backup.is_file():
        return backup
    parts = log.resolve().parts[1:]
    for start in range(len(parts)):
        path = backup.joinpath(*parts[start:])
        if path.is_file():
            return path
    return None


def score(
    run: Path | str,
    benchmark: str,
    data_dir: Path | str | None,
    *,
    gates: Sequence[Gate] = (),
    backup: Path | str | None = None,
    options: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> AccuracyResult:
    """Recompute the accuracy of a run from its log and the ground truth.

    ``run``: a result folder, its ``accuracy`` folder or the log; ``benchmark``: a round's name or
    a method's; ``data_dir``: see ``needs``; ``gates``: the round's demands, by its metric names;
    ``backup``: where the whole log is when the run's is truncated; ``options``: keywords of the
    metric's ``score_log`` (offset, classes, tokenize, dtype, …).

    Raises ``AccuracyError`` when the benchmark, the data, a library or the log is not to be had.
    A truncated log is not an error: the result has no score and says why.
    """
    how = method(benchmark)
    log = find_log(run)
    stated = stated_hash(log.with_name(SCORES))
    notes: list[str] = []
    first = read_log(log)
    head = next(first, None)
    if log.stat().st_size <= 1 << 20:
        first.drain()
    first.close()
    if first.truncated:
        whole = find_backup(log, backup) if backup is not None else None
        if whole is None:
            notes.append(
                "the log is truncated: its accuracy cannot be recomputed from what is left. "
                + (
                    f"No whole log for it in {backup}."
                    if backup is not None
                    else "Give the folder with the whole log (--backup)."
                )
            )
            return AccuracyResult(
                benchmark=benchmark,
                metric=how.metric,
                log=log,
                scores={},
                line=None,
                verdicts=[],
                truncated=True,
                sha256=None,
                stated_hash=stated,
                hash_agrees=None,
                problems=first.problems,
                notes=notes,
            )
        notes.append(f"the log is truncated; the whole one was read from {whole}")
        log = whole
    elif head is None:
        notes.append("the log has no record: was this an accuracy run?")
    detail, scores = how.score(
        log,
        Path(data_dir) if data_dir is not None else None,
        {
            **(options or {}),
            "sha256": True,
            "progress": progress,
        },
    )
    if detail.truncated:
        notes.append("the log is truncated: its accuracy cannot be recomputed from what is left")
        scores = {}
    agrees = None if stated is None or detail.sha256 is None else stated == detail.sha256
    if agrees is False:
        notes.append(
            f"accuracy.txt states hash {stated}, the log has {detail.sha256}: not the same log"
        )
    notes += detail.notes
    if detail.missing and not detail.truncated:
        notes.append(f"{detail.missing} samples have no record; they are not in the score")
    named = {name.casefold(): value for name, value in scores.items()}
    verdicts = [
        gate.verdict(named[gate.metric.casefold()])
        for gate in gates
        if gate.metric.casefold() in named
    ]
    return AccuracyResult(
        benchmark=benchmark,
        metric=how.metric,
        log=log,
        scores=scores,
        line=detail.line() if scores else None,
        verdicts=verdicts,
        truncated=detail.truncated,
        sha256=detail.sha256,
        stated_hash=stated,
        hash_agrees=agrees,
        detail=detail,
        problems=detail.problems,
        notes=notes,
        samples=detail.count,
        missing=detail.missing,
    )

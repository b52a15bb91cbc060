"""The files of the accuracy folder: there, readable, shortened, and what LoadGen wrote."""

from __future__ import annotations

from checker.model import AccuracyRun, Result
from checker.parse.accuracy_log import LogEnds
from checker.parse.reading import File, Folder
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, Problems, rule
from checker.wording import quantity
from schemas.round import Benchmark, Round


@rule("A101", ERROR, only={"endpoints": None})
def accuracy_run_present(result: Result, round: Round) -> Problems:
    """The accuracy run is there: its folder and its detail log.

    Why: no performance counts unless the model reaches its accuracy.
    Fix: run LoadGen in AccuracyOnly mode and put its logs and accuracy.txt into accuracy/.
    Source: submission_rules.adoc, "Directory structure": accuracy.
    """
    if result.scope == "run":
        raise NotJudged
    run = result.accuracy
    if run is None:
        yield Problem("found no folder accuracy/; expected the accuracy run", required="accuracy/")
    elif run.detail is None:
        yield Problem(
            "found no mlperf_log_detail.txt; expected the accuracy run's", path=run.detail_path
        )


@rule("A102", ERROR)
def accuracy_text_present(run: AccuracyRun, round: Round) -> Problems:
    """accuracy.txt, the accuracy script's output, is there.

    Why: it holds the metric that is compared with the target.
    Fix: run the benchmark's accuracy script on mlperf_log_accuracy.json and save its output
    (`assay accuracy` does it for the benchmarks it knows).
    Source: submission_rules.adoc, "Directory structure": accuracy/accuracy.txt.
    """
    if run.text is None:
        yield Problem(
            "found no accuracy.txt; expected the accuracy script's output", path=run.text_path
        )


@rule("A110", ERROR, cases={"absent": ERROR})
def accuracy_log_present(run: AccuracyRun, round: Round) -> Problems:
    """The accuracy log mlperf_log_accuracy.json is there and not empty.

    Why: it holds the model's answers, from which the metric can be computed again.
    Fix: put LoadGen's mlperf_log_accuracy.json into accuracy/ and run `assay truncate TREE`.
    Source: submission_rules.adoc, "Directory structure": accuracy/mlperf_log_accuracy.json.
    """
    file = run.log_file
    path = file.path if file is not None else f"{run.path}/mlperf_log_accuracy.json"
    if file is None:
        yield Problem("found no mlperf_log_accuracy.json; expected one", path=path, case="absent")
    elif file.state != "file":
        yield Problem(
            f"found no regular file ({file.state}); expected one", found=file.state, path=path
        )
    elif file.size == 0:
        yield Problem("found an empty file; expected answers", 0, "> 0 bytes", path=path)


@rule("A111", ERROR, needs={"limit": "result.round.accuracy_log.max_bytes"})
def accuracy_log_truncated(run: AccuracyRun, round: Round, log_file: File, limit: int) -> Problems:
    """The accuracy log is shortened to what the round publishes.

    Why: whole logs reach many GB; the published tree keeps their ends and their hash.
    Fix: run `assay truncate TREE --backup FOLDER`; it keeps the whole log in the backup.
    Source: submission_rules.adoc, "Truncation of accuracy logs".
    """
    if log_file.size > limit:
        text = f"found {log_file.size:,} bytes; expected at most {limit:,}"
        yield Problem(text, log_file.size, limit, path=log_file.path)


@rule(
    "A117",
    NOTE,
    divisions=("closed", "network"),
    cases={"partly": WARNING, "not yet published": WARNING},
    needs={"folder": "accuracy.folder"},
)
def accuracy_images(result: Result, round: Round, benchmark: Benchmark, folder: Folder) -> Problems:
    """The images or videos that the round names are beside the accuracy logs.

    Why: reviewers look at the same ten samples of every submission.
    Fix: save the outputs of the named samples into accuracy/images or accuracy/videos.
    Source: inference_rules.adoc, "Benchmarks"; publication strips them, so their absence from a
    published round is only a note.
    """
    for kind, wanted in (("images", benchmark.images), ("videos", benchmark.videos)):
        below = folder.folder(kind)
        there = {name.rsplit(".", 1)[0] for name in below.files} if below is not None else set()
        missing = [stem for stem in wanted if stem not in there]
        if not missing:
            continue
        case = "partly" if len(missing) < len(wanted) else None
        if case is None and round.official and round.published is None:
            case = "not yet published"
        yield Problem(
            f"found {len(wanted) - len(missing)} of the {len(wanted)} named samples; expected also "
            f"{', '.join(missing[:10])}",
            len(wanted) - len(missing),
            len(wanted),
            path=f"{folder.path}/{kind}",
            case=case,
        )


@rule("A118", ERROR)
def accuracy_summary_present(run: AccuracyRun, round: Round) -> Problems:
    """The accuracy run's summary log is there.

    Why: it is one of the required files of the accuracy folder.
    Fix: put LoadGen's mlperf_log_summary.txt beside mlperf_log_detail.txt.
    Source: submission_rules.adoc, "Directory structure": accuracy.
    """
    if run.summary is None:
        yield Problem("found no mlperf_log_summary.txt; expected one", path=run.summary_path)


@rule("A121", ERROR, cases={"no answer": ERROR, "cut off": ERROR})
def accuracy_log_is_loadgens(
    run: AccuracyRun, round: Round, log_ends: LogEnds, log_file: File
) -> Problems:
    """The accuracy log is LoadGen's list of answers, whole or shortened as the round does it.

    Why: what is not that list proves nothing, whatever its hash.
    Fix: put LoadGen's mlperf_log_accuracy.json into accuracy/ and run `assay truncate TREE`.
    Source: LoadGen logging.cc; submission_rules.adoc, "Truncation of accuracy logs": both ends stay.
    """
    if not log_ends.size or log_ends.foreign is not None:
        raise NotJudged  # what is not text at all is X002's
    shown = f"{log_ends.size:,} bytes"
    if not log_ends.begins or not (log_ends.answers or log_ends.ends):
        text = (
            f"found {shown} that do not begin as LoadGen's list of answers; expected "
            '[ {"seq_id" : …'
        )
        yield Problem(text, shown, '[ {"seq_id" : …', path=log_file.path)
    elif not log_ends.answers:
        text = f"found no answer in {shown}; expected the data set's"
        yield Problem(text, 0, "> 0", path=log_file.path, case="no answer")
    elif not log_ends.ends:
        message = "found a log that is cut off; expected the end of LoadGen's list, ]"
        yield Problem(message, required="]", path=log_file.path, case="cut off", damage=True)


@rule("A124", ERROR, needs={"answers": "log_ends.count", "benchmark": "result.benchmark"})
def accuracy_log_covers_dataset(
    run: AccuracyRun, round: Round, answers: int, benchmark: Benchmark, log_file: File
) -> Problems:
    """An accuracy log that was not shortened holds an answer for every sample of the data set.

    Why: accuracy on a part of the data set says nothing about the target.
    Fix: put the accuracy run's own mlperf_log_accuracy.json there and run `assay truncate TREE`.
    Source: inference_rules.adoc, "Benchmarks": data set; LoadGen logs one record a sample.
    """
    least = benchmark.dataset.least(run.result.scenario)
    if least is not None and 0 < answers < least:
        text = f"found {quantity(answers, 'answer')} in a log that was not shortened; expected {least:,}"
        yield Problem(text, answers, least, path=log_file.path)

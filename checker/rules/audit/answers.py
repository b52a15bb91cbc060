"""Family R: accuracy logs: their hash, their records, and that each is of its own run."""

from __future__ import annotations

from checker import loadgen_keys as keys
from checker.audit.answer_log import digest_of, read_records
from checker.audit.evidence import Look, evidence
from checker.audit.traces import Answers, ResultTrace, base_name
from checker.model import AccuracyRun
from checker.parse.detail import DetailLog
from checker.parse.reading import File, Unreadable
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, Problems, rule
from checker.rules.audit.replay import any_log, records_of
from checker.wording import number
from schemas.round import Round


@rule("R131", WARNING, needs=("log_file", "text"))
def hash_of_whole_log(run: AccuracyRun, round: Round) -> Problems:
    """The hash in accuracy.txt is that of the accuracy log, where the log is whole.

    Why: it binds the metric to the answers that it was computed from.
    Fix: run `assay truncate` on the whole accuracy log, and publish what it wrote.
    Source: submission_rules.adoc, "Truncation of accuracy logs": SHA-256 of the whole log.
    """
    file, text = run.log_file, run.text
    if file is None or text is None or not text.hashes or file.state != "file" or file.size < 16:
        raise NotJudged
    if file.size > _HASHED_BYTES or _truncated(run):
        raise NotJudged
    try:
        found = digest_of(file)
    except Unreadable as error:
        raise NotJudged from error
    if found not in {value.lower() for value, _ in text.hashes}:
        value, line = text.hashes[-1]
        yield Problem(
            f"found hash={value}; expected {found}, the SHA-256 of the accuracy log beside it",
            path=text.path,
            line=line,
            found=value,
            required=found,
            if_whole=file.path,
            evidence=evidence(
                "SHA-256 of the accuracy log = hash in accuracy.txt",
                "moderate",
                {"accuracy.txt": value, "accuracy log": found, "bytes": file.size},
                {"hash": line},
            ),
        )


_HASHED_BYTES = 1 << 30


def _truncated(run: AccuracyRun) -> bool:
    return run.log_file is None or read_records(run.log_file).cut


@rule("R206", ERROR, needs={"file": "log_file"}, cases={"cut by hand": WARNING})
def accuracy_records_whole(run: AccuracyRun, round: Round, file: File) -> Problems:
    """An untruncated accuracy log has exactly one record for each generated sample.

    Judged in accuracy mode. Before LoadGen 5.0 generated_query_count is not what was issued: there the
    size of the data set counts too. A log of at most 16 KiB without a gap was shortened by hand: a
    warning.

    Why: LoadGen numbers the samples of a run and logs each once.
    Fix: use the accuracy log as LoadGen wrote it, and shorten it with `assay truncate` only.
    Source: LoadGen logging: seq_id of mlperf_log_accuracy.json.
    """
    detail = any_log(run)
    if detail.format != "mllog":
        raise NotJudged
    records = records_of(run)
    seen: dict[int, int] = {}
    for at, (seq, _) in enumerate(records.pairs):
        if seq in seen:
            line = at + 2 if not records.cut else None
            yield Problem(
                f"found seq_id {seq} in records {number(seen[seq] + 1)} and {number(at + 1)}"
                f"{' of the truncated log' if records.cut else ''}; expected each seq_id once",
                path=records.path,
                line=line,
                found=seq,
                required="each seq_id once",
                evidence=Look(detail).evidence(
                    "seq_id is unique", "high", records=len(records.pairs)
                ),
            )
            return
        seen[seq] = at
    if records.cut or run.mode != "AccuracyOnly":
        return
    totals = _generated(run, detail)
    if totals and len(records.pairs) not in totals:
        look = Look(detail)
        look.integer("generated_query_count"), look.integer("generated_samples_per_query")
        short = len(records.pairs) < min(totals) and file.size <= _BY_HAND_BYTES
        yield Problem(
            f"found {number(len(records.pairs))} records; expected {number(totals[0])}, the samples generated",
            path=records.path,
            found=len(records.pairs),
            required=totals[0],
            case="cut by hand" if short else None,
            evidence=look.evidence("records = generated queries * samples per query", "moderate"),
        )


_BY_HAND_BYTES = 16 * 1024


def _generated(run: AccuracyRun, detail: DetailLog) -> list[int]:
    """How many records the log may hold, first what LoadGen says that it generated."""
    counts = [e.value for e in detail.all("generated_query_count")]
    per_query = [e.value for e in detail.all("generated_samples_per_query")]
    whole = all(type(n) is int for n in [*counts, *per_query])
    if not counts or len(counts) != len(per_query) or not whole:
        return []
    totals = [sum(n * per for n, per in zip(counts, per_query, strict=True))]
    from checker.audit import replayed

    if replayed.replay_of(run).facts.generation is not replayed.Generation.V5:
        dataset = run.result.benchmark.dataset if run.result.benchmark is not None else None
        sizes = [detail.integer(keys.QSL_TOTAL_COUNT), detail.integer(keys.ACCURACY_SAMPLE_COUNT)]
        if dataset is not None:
            sizes += [dataset.size, dataset.least(run.result.scenario)]
        totals += [size for size in sizes if size]
    return totals


@rule("R309", ERROR, needs=("field", "answers"), cases={"same test": WARNING, "not known": NOTE})
def answers_of_its_own(result: ResultTrace, round: Round) -> Problems:
    """A compliance test's answer log is that test's own.

    Two tests of one kind and benchmark may have the same answers where the model answers alike every
    time: where a test gives the answers of its own accuracy run. A warning where it does not; a note
    where the logs show no sample in common.

    Why: a test logs the answers of its own run; the accuracy run's log in its place proves nothing.
    Fix: run the test again and keep its own mlperf_log_accuracy.json.
    Source: compliance tests: every test logs accuracy itself; SHA-256 of the accuracy logs. One
    run may stand for 99 and 99.9 twins and for inferred scenarios.
    """
    assert result.field is not None
    for own in result.answers:
        if own.kind == "accuracy":
            continue
        others = [
            (trace, log)
            for trace, log in result.field.by_answers[own.digest]
            if log is not own and not (log.kind == own.kind and _one_run(result, trace, round))
        ]
        if not others:
            continue
        # Two tests of one kind: one finding, at the later path.
        same = all(log.kind == own.kind for _, log in others)
        if same and min(log.path for _, log in others) > own.path:
            continue
        trace, other = min(others, key=lambda pair: (pair[1].kind == own.kind, pair[1].path))
        case = None
        if same and _one_task(result, others):
            repeats = [own.repeats, *(log.repeats for _, log in others)]
            if any(repeats) and False not in repeats:
                continue
            case = "same test" if False in repeats else "not known"
        yield Problem(
            f"the answers of {own.kind} are byte for byte those of {other.path} ({other.kind})",
            path=own.path,
            found=[log.path for _, log in others[:20]],
            required="answers of the test's own run",
            case=case,
            results=tuple(dict.fromkeys([*result.results, *trace.results])),
            invalidates=_blamed(result, own, trace, other),
            evidence=evidence(
                "SHA-256 of two accuracy logs is equal",
                "certain",
                {
                    "this log": own.path,
                    "other log": other.path,
                    "SHA-256": own.digest,
                    "the accuracy run's answers": own.repeats,
                },
            ),
        )


@rule("R322", ERROR, needs=("field", "answers"))
def hash_of_its_own(result: ResultTrace, round: Round) -> Problems:
    """No two accuracy runs whose logs differ state the same hash in accuracy.txt.

    The logs' first 1,000 bytes are compared, which a shortened log keeps.

    Why: the hash is that of one log; the accuracy.txt of one of the two is another run's.
    Fix: put the accuracy.txt of each run beside its own log.
    Source: submission_rules.adoc, "Truncation of accuracy logs": the hash is of the whole log.
    """
    assert result.field is not None
    for own in result.answers:
        if own.stated is None:
            continue
        others = [
            (trace, log)
            for trace, log in result.field.by_stated_hash[own.stated]
            if log.begins != own.begins
        ]
        # One finding, at the later path.
        if not others or min(log.path for _, log in others) > own.path:
            continue
        trace, other = min(others, key=lambda pair: pair[1].path)
        path, line = own.stated_at
        yield Problem(
            f"found hash={own.stated[:12]}… as in {other.stated_at[0]}, whose log has other answers; expected "
            "the hash of the log beside it",
            path=path,
            line=line,
            found=[log.stated_at[0] for _, log in others[:20]],
            required="the hash of the log beside it",
            results=tuple(dict.fromkeys([*result.results, *trace.results])),
            invalidates=_blamed(result, own, trace, other),
            evidence=evidence(
                "two logs that differ have two hashes",
                "certain",
                {
                    "this log": own.path,
                    "other log": other.path,
                    "hash in both texts": own.stated,
                    "SHA-256 of this log, as published": own.digest,
                    "SHA-256 of the other log, as published": other.digest,
                },
                {path: line, other.stated_at[0]: other.stated_at[1]},
            ),
        )


def _blamed(
    one: ResultTrace, own: Answers, other: ResultTrace, theirs: Answers
) -> tuple[str, ...] | None:
    """The results that the copy belongs to: whose log contradicts its place, else both of one system."""
    mine, others = set(own.contradictions), set(theirs.contradictions)
    if others < mine:
        return one.results
    if mine < others:
        return other.results
    a, b = one.subject, other.subject
    same = (a.submitter, a.system) == (b.submitter, b.system)
    return None if same and base_name(a.benchmark) == base_name(b.benchmark) else ()


def _one_task(one: ResultTrace, others: list[tuple[ResultTrace, Answers]]) -> bool:
    """Whether all of the others are of the same benchmark: the same model may answer alike twice."""
    own = base_name(one.subject.benchmark)
    return all(base_name(trace.subject.benchmark) == own for trace, _ in others)


def _one_run(one: ResultTrace, other: ResultTrace, round: Round) -> bool:
    """Whether two results may share one run: accuracy twins, inferred scenarios, two divisions."""
    a, b = one.subject, other.subject
    if (a.submitter, a.system) != (b.submitter, b.system) or one.round != other.round:
        return False
    if base_name(a.benchmark) != base_name(b.benchmark):
        return False
    if one.scenario == other.scenario:
        return True
    pair = {one.scenario, other.scenario}
    return any({i.source, i.target} == pair for i in round.inference)

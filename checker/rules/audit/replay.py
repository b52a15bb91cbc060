"""Family R, replay: what LoadGen drew from the seeds, drawn again and compared with the log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from checker.audit.answer_log import Records, read_records
from checker.audit.evidence import Look, evidence, near
from checker.model import ComplianceTest, LoggedRun, MeasuredRun, PerformanceRun, Run
from checker.parse.detail import DetailLog
from checker.parse.reading import File
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, Problems, given, rule
from checker.wording import number, pair, shown
from schemas.round import Round

if TYPE_CHECKING:
    from checker.audit.replayed import Replay


_SEQ = re.compile(r"seq_id (\d+)")


def _value(value: object) -> str:
    """A value of a replay; what is in words already stays as it is."""
    return value if isinstance(value, str) else shown(value)


def any_log(run: Run) -> DetailLog:
    if run.detail is None or not run.detail or run.kind == "ranging":
        raise NotJudged
    return run.detail


@rule("R201", ERROR, needs="detail")
def loaded_set_replayed(run: LoggedRun, round: Round) -> Problems:
    """The loaded samples are those drawn from the QSL seed, in the same order.

    Why: LoadGen shuffles the data set with the announced seed; the same seed gives the same set.
    Fix: use the detail log as LoadGen wrote it, and an unaltered LoadGen.
    Source: LoadGen loadgen.cc: mt19937 and std::shuffle of libstdc++ (three versions), libc++ or
    Microsoft's library.
    """
    detail = any_log(run)
    from checker.audit import replayed

    replay = replayed.replay_of(run)
    outcome = replayed.noted(replayed.sets_outcome(replay))
    if isinstance(outcome, replayed.NotReplayed):
        raise NotJudged
    if isinstance(outcome, replayed.Disagreement):
        look = Look(detail)
        for key in (
            "effective_qsl_rng_seed",
            "qsl_reported_total_count",
            "effective_performance_sample_count",
        ):
            look.integer(key)
        yield Problem(
            f"found {outcome.where} {_value(outcome.found)}; expected {_value(outcome.expected)}, from QSL seed "
            f"{replay.facts.qsl_seed}",
            path=run.detail_path,
            line=detail.line("loaded_qsl_set"),
            found=outcome.found,
            required=outcome.expected,
            evidence=look.evidence(
                "loaded_qsl_set = the first samples of shuffle(0 … total - 1; mt19937(QSL seed)), under "
                "each of five C++ libraries",
                "certain",
                compared=sum(map(len, replay.sets)),
            ),
        )


@rule("R202", ERROR, needs="detail", cases={"not replayed": NOTE})
def schedule_replayed(run: LoggedRun, round: Round) -> Problems:
    """The number of generated queries and the length of their schedule follow from the settings.

    Why: LoadGen generates all queries before the run from target rate, duration and schedule seed.
    Fix: use the detail log as LoadGen wrote it, and an unaltered LoadGen.
    Source: LoadGen loadgen.cc, GenerateQueries. Schedules of over 30 million queries are not judged.
    """
    detail = any_log(run)
    from checker.audit import replayed

    replay = replayed.replay_of(run)
    outcome = replayed.noted(replayed.schedule_outcome(replay))
    if isinstance(outcome, replayed.NotReplayed):
        if f"more than {replayed.LIMIT}" not in outcome.reason:
            raise NotJudged
        yield Problem(
            f"found a long schedule, not replayed; expected at most {number(replayed.LIMIT)} queries",
            path=run.detail_path,
            line=detail.line("generated_query_count"),
            found=replay.counts,
            required=f"<= {replayed.LIMIT}",
            case="not replayed",
            fix="nothing; the rest of the log was checked",
        )
        return
    if isinstance(outcome, replayed.Disagreement):
        look = Look(detail)
        for key in (
            "effective_schedule_rng_seed",
            "effective_min_query_count",
            "generated_query_count",
            "generated_query_duration",
        ):
            look.integer(key)
        look.number("effective_target_qps"), look.number("effective_target_duration_ms")
        yield Problem(
            f"found {outcome.where} {_value(outcome.found)}; expected {_value(outcome.expected)}, from the "
            f"settings and schedule seed {replay.facts.schedule_seed}",
            path=run.detail_path,
            line=detail.line(outcome.where.split()[0]),
            found=outcome.found,
            required=outcome.expected,
            evidence=look.evidence(
                "count and length of the waiting times -ln(1 - u) / rate drawn from mt19937(schedule "
                "seed), in whole nanoseconds"
                if run.scenario == "Server"
                else "queries at the target rate until twice the duration and the minimum count are reached",
                "certain",
            ),
        )


@rule("R203", ERROR, needs="detail")
def query_order_replayed(run: LoggedRun, round: Round) -> Problems:
    """The samples in the accuracy log are those drawn from the seed, in the same order.

    Why: LoadGen draws the sample of every query from the announced seed.
    Fix: use the accuracy log as LoadGen wrote it, beside the detail log of the same run.
    Source: LoadGen loadgen.cc, GenerateQueries. Accuracy runs: 401 of 402 logs of v0.7 to v6.0 agree,
    one holds a compliance test's answers. Other runs are judged from LoadGen 5.0 on.
    """
    detail = any_log(run)
    from checker.audit import replayed

    replay = replayed.replay_of(run)
    if not (replay.facts.accuracy or replay.facts.generation is replayed.Generation.V5):
        raise NotJudged
    records = records_of(run)
    # Where the loaded set itself is not the seed's R201 says so, and nothing follows from it.
    outcome = replayed.noted(replayed.order_outcome(replay, records.pairs))
    if isinstance(outcome, replayed.NotReplayed):
        raise NotJudged
    if isinstance(outcome, replayed.Disagreement):
        look = Look(detail)
        for key in (
            "effective_sample_index_rng_seed",
            "effective_qsl_rng_seed",
            "effective_min_query_count",
        ):
            look.integer(key)
        look.boolean("effective_sample_concatenate_permutation")
        seq = _SEQ.search(outcome.where)
        yield Problem(
            f"found {outcome.where} {_value(outcome.found)}; expected {_value(outcome.expected)}, from the seeds",
            path=records.path,
            line=records.line_of(int(seq[1])) if seq else None,
            found=outcome.found,
            required=outcome.expected,
            evidence=look.evidence(
                "qsl_idx of seq_id = the sample drawn from mt19937(sample index seed)",
                "certain",
                records=len(records.pairs),
                **{"detail log": run.detail_path},
            ),
        )


def records_of(run: Run) -> Records:
    from checker.audit import replayed

    file = given(replayed.accuracy_log(run))
    if file.state != "file" or file.size < 16:
        raise NotJudged
    records = read_records(file)
    if not records.pairs:
        raise NotJudged
    return records


@rule("R204", ERROR, needs="detail")
def sampling_replayed(run: MeasuredRun, round: Round) -> Problems:
    """A performance run logged the answers that the sampling seed picks, and no others.

    Why: compliance tests compare answers that an announced seed picks, so that nobody can choose them.
    Fix: use the accuracy log as LoadGen wrote it, beside the detail log of the same run.
    Source: LoadGen logging: accuracy_log_rng_seed and accuracy_log_sampling_target. Judged from
    LoadGen 5.0 on.
    """
    detail = any_log(run)
    from checker.audit import replayed

    replay = replayed.replay_of(run)
    if replay.facts.accuracy or replay.facts.generation is not replayed.Generation.V5:
        raise NotJudged
    records = records_of(run)
    try:
        outcome = replayed.noted(
            replayed.sampling_outcome(replay, [seq for seq, _ in records.pairs])
        )
    except (ValueError, OverflowError) as error:
        raise NotJudged from error
    if isinstance(outcome, replayed.NotReplayed):
        raise NotJudged
    if isinstance(outcome, replayed.Disagreement):
        look = Look(detail)
        look.integer("effective_accuracy_log_rng_seed")
        look.integer("effective_accuracy_log_sampling_target")
        seq = _SEQ.search(outcome.found)
        yield Problem(
            f"{outcome.where}: found {_value(outcome.found)}; expected {_value(outcome.expected)}",
            path=records.path,
            line=records.line_of(int(seq[1])) if seq else None,
            found=outcome.found,
            required=outcome.expected,
            evidence=look.evidence(
                "logged seq_ids are those whose draw from mt19937(accuracy log seed) is under the "
                "sampling rate",
                "certain",
                records=len(records.pairs),
                **{"detail log": run.detail_path},
            ),
        )


@rule("R205", ERROR, needs="detail")
def scheduled_rate_replayed(run: MeasuredRun, round: Round) -> Problems:
    """Server's scheduled rate is that of its own schedule: queries over the last one's due time.

    Why: the due time of the last query is known from the seed, and with it the published rate.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: (queries - 1) / due time of the last query; loadgen.cc.
    """
    detail = any_log(run)
    if run.scenario != "Server" or detail.format != "mllog":
        raise NotJudged
    look = Look(detail)
    count, rate = (
        look.integer("result_query_count"),
        look.number("result_scheduled_samples_per_sec"),
    )
    from checker.audit import replayed

    replay = replayed.replay_of(run)
    facts = replay.facts
    if (
        facts.target_qps < 1e-6
        or facts.accuracy
        or not count
        or count < 100
        or not rate
        or count > replayed.LIMIT
    ):
        raise NotJudged
    if look.boolean("requested_server_coalesce_queries"):
        raise NotJudged
    due_ns, slack = _last_due(replay, count)
    look.integer("effective_schedule_rng_seed"), look.number("effective_target_qps")
    expected = (count - 1) * 1e9 / due_ns
    if not near(rate, expected, 3e-5 + slack):
        yield Problem(
            f"found result_scheduled_samples_per_sec {pair(rate, expected)[0]}; expected "
            f"{pair(rate, expected)[1]}: by schedule seed {facts.schedule_seed}, query {number(count)} is due at "
            f"{due_ns / 1e9:,.6f} s",
            path=run.detail_path,
            line=detail.line("result_scheduled_samples_per_sec"),
            found=rate,
            required=float(f"{expected:.8g}"),
            evidence=look.evidence(
                "(queries - 1) / due time of the last query drawn from mt19937(schedule seed)",
                "certain",
                due_ns=due_ns,
            ),
        )


_EXACT = 200_000
"""Up to so many queries the last one's due time is drawn again; beyond, it is bounded."""


def _last_due(replay: Replay, count: int) -> tuple[float, float]:
    """When the last of ``count`` queries is due, ns, and by what share that may be off.

    The whole schedule's length is one waiting time more. A waiting time over 30 times the mean has
    a chance of 1e-13, so in a long schedule the length alone says enough.
    """
    from checker.audit import replayed

    facts = replay.facts
    if count > _EXACT and replay.counts == [count] and len(replay.durations) == 1:
        mean = 1e9 / facts.target_qps if facts.target_qps > 0 else 0.0
        return max(replay.durations[0] - 15 * mean, 1.0), 15 / count
    try:
        due = replayed.server_schedule(
            facts.schedule_seed, facts.target_qps, 0, count - 1, limit=replayed.LIMIT
        )
    except (replayed.TooLong, ValueError, OverflowError) as error:
        raise NotJudged from error
    if not due.duration_ns:
        raise NotJudged
    return due.duration_ns, 0.0


@rule(
    "R207",
    WARNING,
    cases={"another scenario": ERROR},
    needs={"file": "accuracy_log", "main": "result.performance"},
)
def token_test_order_replayed(
    test: ComplianceTest, round: Round, file: File, main: PerformanceRun
) -> Problems:
    """The samples that TEST06 logged are the first that the seeds give for its scenario.

    The submitted run's loaded set, and seq_id 0, 1, 2 … as the sample index seed draws them, in order
    or in equal issue, under each of the C++ libraries. 142 of the 143 logs of v4.1 to v6.0 agree; one
    of v5.1 has an order of its own. Error where the order is another scenario's.

    Why: TEST06 is published without a detail log; the order of its samples says whose run it was.
    Fix: run TEST06 again in the result's scenario and keep its own mlperf_log_accuracy.json.
    Source: compliance test TEST06: its audit.config; LoadGen loadgen.cc, GenerateQueries.
    """
    if test.name != "TEST06" or (test.run is not None and test.run.detail):
        raise NotJudged
    from checker.audit import replayed

    records = read_records(file)
    replay = replayed.replay_of(main)
    own = replay.facts.scenario
    if len(replay.sets) != 1 or not records.pairs or file.size > _TOKEN_LOG_BYTES:
        raise NotJudged
    if replayed.has_test_order(replay, records.pairs, own):
        return
    other = next(
        (
            name
            for name in ("Offline", "Server", "SingleStream")
            if name != own and replayed.has_test_order(replay, records.pairs, name)
        ),
        None,
    )
    seq, index = min(records.pairs)
    order = f"that of an {other} run" if other == "Offline" else f"that of a {other} run"
    yield Problem(
        f"found samples in an order that is {order if other else 'none of its scenario'} (seq_id "
        f"{seq}: qsl_idx {index}); expected that of its seeds in {own}",
        path=file.path,
        line=records.line_of(seq),
        found=other or "unknown",
        required=own,
        case="another scenario" if other else None,
        evidence=evidence(
            "qsl_idx of seq_id = the sample drawn from mt19937(sample index seed)",
            "certain" if other else "moderate",
            {
                "records": len(records.pairs),
                "sample_index_rng_seed": str(replay.facts.sample_index_seed),
                "submitted run": main.detail_path,
            },
        ),
    )


_TOKEN_LOG_BYTES = 64 * 1024 * 1024

"""Family P: LoadGen itself, and whether logs are of the same setup and of their own system."""

from __future__ import annotations

from checker import loadgen_keys as keys
from checker.model import AccuracyRun, PerformanceRun, RangingRun
from checker.parse.detail import DetailLog
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, given, rule
from checker.rules.comparing import at, is_uncommitted
from checker.shared_logs import SharedLogs
from checker.wording import listed, quantity, shown
from schemas.round import Round


@rule("P128", WARNING)
def loadgen_version(
    run: PerformanceRun | AccuracyRun, round: Round, detail: DetailLog, loadgen_version: str
) -> Problems:
    """LoadGen's version belongs to the round.

    Why: rounds change seeds, metrics and checks inside LoadGen.
    Fix: build or install the LoadGen release of the round and run again.
    Source: inference_rules.adoc, "LoadGen": an unaltered, approved revision.
    """
    versions = given(round.loadgen.versions or None)
    short = ".".join(loadgen_version.split(".")[:2])
    # LoadGen 0.5 prints itself as ".5a1".
    if not {short, loadgen_version} & {*versions, *(f"0{known}" for known in versions)}:
        text = f"{keys.LOADGEN_VERSION} is {loadgen_version}; expected {listed(versions, 'or')}"
        yield at(run, keys.LOADGEN_VERSION, text, loadgen_version, versions)


@rule("P148", WARNING)
def loadgen_version_stated(
    run: PerformanceRun | AccuracyRun, round: Round, detail: DetailLog
) -> Problems:
    """The log states LoadGen's version.

    Why: LoadGen writes it first; a log without it was cut or edited.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen version.cc: loadgen_version.
    """
    if run.loadgen_version is None:
        text = f"{keys.LOADGEN_VERSION} is absent; expected LoadGen's version"
        yield at(run, keys.LOADGEN_VERSION, text, None, round.loadgen.versions)


@rule("P129", WARNING)
def loadgen_unmodified(
    run: PerformanceRun | AccuracyRun | RangingRun, round: Round, detail: DetailLog
) -> Problems:
    """LoadGen was built without uncommitted changes.

    Why: LoadGen must be used unaltered; a changed checkout may be a changed LoadGen.
    Fix: build LoadGen from a clean checkout of the round's release.
    Source: inference_rules.adoc, "LoadGen"; LoadGen's own error record.
    """
    for entry in detail.errors:
        if is_uncommitted(entry.key, str(entry.value)):
            text = "LoadGen was built with uncommitted changes; expected a clean checkout"
            yield Problem(
                text,
                found=str(entry.value)[:300],
                required="a clean checkout",
                path=run.detail_path,
                line=entry.line,
            )
            return


@rule("P139", WARNING, needs={"other": "result.performance.detail"})
def same_setup(run: AccuracyRun, round: Round, detail: DetailLog, other: DetailLog) -> Problems:
    """The accuracy run was made with the performance run's scenario, library and token latencies.

    Why: the accuracy must be that of the system whose performance is published.
    Fix: make both runs with the same build and configuration.
    Source: inference_rules.adoc, "Scenarios": the same code in both modes.
    """
    for key in (keys.SCENARIO, keys.QSL_NAME, keys.USE_TOKEN_LATENCIES):
        yield from _differs(run, detail, other, key)


@rule("P159", NOTE, needs={"other": "result.performance.detail"})
def same_sut_name(run: AccuracyRun, round: Round, detail: DetailLog, other: DetailLog) -> Problems:
    """The accuracy run names the same system under test as the performance run.

    Why: the accuracy must be that of the system whose performance is published.
    Fix: make both runs with the same build.
    Source: inference_rules.adoc, "Scenarios"; LoadGen's sut_name.
    """
    yield from _differs(run, detail, other, keys.SUT_NAME)


def _differs(run: AccuracyRun, detail: DetailLog, other: DetailLog, key: str) -> Problems:
    mine, theirs = detail.get(key), other.get(key)
    stated = mine not in (None, "") and theirs not in (None, "")
    if stated and mine != theirs:
        text = (
            f"{key} is {shown(mine)} in the accuracy run; the performance run has {shown(theirs)}"
        )
        yield at(run, key, text, mine, theirs)


@rule(
    "P140", NOTE, needs={"mine": "loadgen_version", "theirs": "result.performance.loadgen_version"}
)
def same_loadgen(run: AccuracyRun, round: Round, mine: str, theirs: str) -> Problems:
    """The accuracy run was made with the performance run's LoadGen version.

    Why: both runs should come from one build.
    Fix: make both runs with one LoadGen.
    Source: inference_rules.adoc, "LoadGen".
    """
    if theirs != mine:
        text = f"{keys.LOADGEN_VERSION} is {mine} in the accuracy run; the performance run has {theirs}"
        yield at(run, keys.LOADGEN_VERSION, text, mine, theirs)


@rule("P149", ERROR, cases={"one submitter": WARNING, "one machine": WARNING})
def log_of_one_system(shared: SharedLogs, round: Round) -> Problems:
    """A performance log belongs to one system.

    Why: a measurement of one system says nothing about another. One machine may appear in two
    categories; its descriptions then name the same hardware.
    Fix: put the log of each system's own run into its folder.
    Source: submission_rules.adoc: results are those of the system that is described.
    """
    (owner, first), (other, second) = shared.systems
    submitters = f" of {owner} and {other}" if owner != other else ""
    differ = listed(list(shared.differences)) if shared.differences else "no hardware field"
    copy = shared.copy[1] if shared.copy is not None else None
    whose = f"; those of {copy} contradict their place ({listed(list(shared.doubts[:4]))})"
    yield Problem(
        f"systems {first} and {second}{submitters} share {quantity(len(shared.logs), 'log')}, the first "
        f"{' and '.join(shared.logs[0])}; their descriptions differ in {differ}{whose if copy else ''}; "
        "expected a run of its own for each system",
        found=[log for pair in shared.logs[:10] for log in pair],
        required="logs of each system's own runs",
        path=shared.path,
        case=None if owner != other else "one submitter" if shared.differences else "one machine",
        results=shared.copied or shared.results,
        # Which of two submitters' logs is the genuine one is not known where neither contradicts its
        # place: none of their results is made invalid.
        invalidates=() if owner != other and copy is None else None,
        count=len(shared.logs),
    )

"""From a plan to the model: read one result's files, once, into what rules judge."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from checker.accuracy.problem import DAMAGE, AccuracyError, Problem
from checker.compliance.tests import TESTS
from checker.discover import ResultPlan, canonical_scenario
from checker.model import (
    AccuracyRun,
    ComplianceRun,
    ComplianceTest,
    PerformanceRun,
    RangingRun,
    Result,
    Run,
    System,
)
from checker.near import MAX_HINTS, nearest
from checker.parse.accuracy_log import read_ends
from checker.parse.accuracy_txt import read_accuracy
from checker.parse.detail_file import read_detail
from checker.parse.documents import Document, read_json
from checker.parse.reading import Fault, File, Folder
from checker.parse.summary import into_detail, read_summary
from checker.parse.user_conf import read_conf
from checker.parse.verify import read_verification
from schemas.round import Round

_RUN = re.compile(r"^run_?(\d+)$", re.IGNORECASE)
_TEST = re.compile(r"^TEST\d\d(-[AB])?$")
_VERIFY = re.compile(r"^(?:verify.*|(accuracy|performance)-verify-result)\.txt$")
_ANSWERS_LIMIT = 256 * 1024 * 1024
DETAIL = "mlperf_log_detail.txt"
SUMMARY = "mlperf_log_summary.txt"
ACCURACY = "mlperf_log_accuracy.json"


@functools.lru_cache(maxsize=256)
def _system_document(real: str, path: str, size: int, state: str, _changed_ns: int) -> Document:
    # The time is in the key: a long-lived process may check a tree again after it was fixed.
    return read_json(File(path, real, size, state))


def load_system(
    division: str, submitter: str, name: str, path: str, file: File | None, *, complete: bool
) -> System:
    """A system with its description read (once per process)."""
    system = System(division, submitter, name, path, complete=complete)
    if file is not None:
        system.document = _system_document(
            file.real, file.path, file.size, file.state, file.changed_ns
        )
    return system


def load_logs(run: Run, folder: Folder | None) -> None:
    """Read the two LoadGen logs of a run's folder."""
    if folder is None:
        return
    detail = folder.files.get(DETAIL)
    summary = folder.files.get(SUMMARY)
    if detail is not None:
        run.detail = read_detail(detail)
    if summary is not None:
        run.summary = read_summary(summary)
    if run.detail is not None and run.detail.format == "text" and run.summary is not None:
        into_detail(run.summary, run.detail)


def load_result(plan: ResultPlan, round: Round) -> Result:
    """Read everything of one result. Never raises for what the files hold."""
    system = load_system(
        plan.division,
        plan.submitter,
        plan.system,
        plan.system_path,
        plan.system_file,
        complete=plan.scope in ("tree", "division", "submitter"),
    )
    benchmark = round.benchmarks.get(plan.name) if plan.name else None
    result = Result(
        division=plan.division,
        submitter=plan.submitter,
        system=system,
        directory=plan.directory,
        scenario_folder=plan.scenario_folder,
        path=plan.path,
        round=round,
        name=plan.name,
        benchmark=benchmark,
        scenario=plan.scenario,
        folder=plan.folder,
        key=plan.key,
        scope=plan.scope,
        measurement_path=plan.measurement_path,
        measurement_folder=plan.measurement_folder,
        compliance_path=plan.compliance_path,
        compliance_folder=plan.compliance_folder,
    )
    _load_performance(result, round)
    _load_accuracy(result, round)
    _load_measurements(result, round)
    _load_compliance(result, round)
    _load_endpoints(result, round)
    if result.scope == "run" and result.scenario is None and result.performance is not None:
        # A run folder of its own: its log says which scenario it is.
        result.scenario = canonical_scenario(result.performance.scenario or "", round.aliases)
        result.scenario_folder = result.scenario or result.scenario_folder
    return result


def _load_performance(result: Result, round: Round) -> None:
    folder = result.folder.folder("performance")
    if folder is None:
        return
    numbered: list[tuple[int, Folder]] = []
    for name, below in folder.folders.items():
        found = _RUN.match(name)
        if found:
            numbered.append((int(found.group(1)), below))
    numbered.sort(key=lambda item: item[0])
    wanted = result.rules.runs if result.rules is not None else 1
    if not numbered and DETAIL in folder.files:
        # v0.5 and v0.7 accept logs directly in performance/.
        numbered = [(1, folder)]
    for index, below in numbered:
        if index > wanted or index == 0:
            result.extra_runs.append(below.path)
            continue
        run = PerformanceRun(result, "performance", below.path, below, index=index)
        load_logs(run, below)
        result.runs.append(run)
    result.power_folder = folder.folder("power")
    spl = any("spl.txt" in run.folder.files for run in result.runs if run.folder is not None)
    if result.power_folder is not None or spl:
        from checker.parse.power import read_power

        for run in result.runs:
            run.power = read_power(run.folder, result.power_folder, run.detail, round)
        ranging = folder.folder("ranging")
        if ranging is not None:
            before = RangingRun(result, "ranging", ranging.path, ranging)
            load_logs(before, ranging)
            before.power = read_power(ranging, result.power_folder, before.detail, round)
            result.ranging = before


def _load_accuracy(result: Result, round: Round) -> None:
    folder = result.folder.folder("accuracy")
    if folder is None:
        return
    run = AccuracyRun(result, "accuracy", folder.path, folder)
    load_logs(run, folder)
    run.log_file = folder.files.get(ACCURACY)
    if run.log_file is not None:
        run.log_ends = read_ends(run.log_file, counted=True)
    run.text_path = f"{folder.path}/accuracy.txt"
    text = folder.files.get("accuracy.txt")
    if text is not None:
        run.text = read_accuracy(text, round.accuracy_patterns)
    result.accuracy = run


def _load_measurements(result: Result, round: Round) -> None:
    layout = round.layout
    patterns = [
        pattern.format(
            system=result.system.name,
            scenario=result.scenario_folder,
            benchmark=result.directory,
            implementation="*",
        )
        for pattern in layout.measurements_file
    ]
    result.measurement_expected = patterns[0].replace("*", "<implementation>") if patterns else ""
    folder = result.measurement_folder
    if folder is None:
        return
    names = sorted(folder.files)
    for pattern in patterns:
        low = pattern.lower()
        match = next((n for n in names if n == pattern), None) or next(
            (n for n in names if fnmatchcase(n.lower(), low) and n.endswith(".json")), None
        )
        if match:
            result.measurements = read_json(folder.files[match])
            break
    user = folder.files.get("user.conf")
    if user is not None:
        result.user_conf = read_conf(user)
    official = folder.files.get("mlperf.conf")
    if official is not None:
        result.mlperf_conf = read_conf(official)


def _load_compliance(result: Result, round: Round) -> None:
    folder = result.compliance_folder
    if folder is None:
        return
    for name in sorted(folder.folders):
        if not _TEST.match(name.upper()):
            continue
        below = folder.folders[name]
        test = ComplianceTest(result, name.upper(), below.path, below)
        performance = below.folder("performance")
        logs = performance.folder("run_1") if performance is not None else None
        if logs is None and performance is not None and DETAIL in performance.files:
            logs = performance
        if logs is None and DETAIL in below.files:
            logs = below
        if logs is not None:
            run = ComplianceRun(result, "compliance", logs.path, logs, test=test.name)
            load_logs(run, logs)
            test.run = run
        accuracy = below.folder("accuracy")
        if accuracy is not None:
            test.accuracy_log = accuracy.files.get(ACCURACY)
            if test.accuracy_log is not None:
                test.log_ends = read_ends(test.accuracy_log)
            for attribute, file_name in (
                ("baseline", "baseline_accuracy.txt"),
                ("compliance", "compliance_accuracy.txt"),
            ):
                file = accuracy.files.get(file_name)
                if file is not None:
                    setattr(test, attribute, read_accuracy(file, round.accuracy_patterns))
        for file_name in sorted(below.files):
            found = _VERIFY.match(file_name)
            if found:
                # v0.5 wrote accuracy-verify-result.txt.
                known = f"verify_{found[1]}.txt" if found[1] else file_name
                test.verifications[known] = read_verification(below.files[file_name])
        result.tests[test.name] = test
        _load_answers(test)


def _load_answers(test: ComplianceTest) -> None:
    """Compare or count the test's own answers, where its log is not too large for a check."""
    log = test.accuracy_log
    if log is None or log.state != "file" or not 0 < log.size <= _ANSWERS_LIMIT:
        return
    kind, evidence = TESTS.get(test.name), test.evidence
    if kind is None or kind.read is None or evidence is None:
        return
    accuracy = test.result.accuracy
    main = accuracy.log_file if accuracy is not None else None
    readable = main is not None and main.state == "file" and 0 < main.size <= _ANSWERS_LIMIT
    try:
        kind.read(evidence, main.real if main is not None and readable else None, log.real, None)
        test.answers, test.tokens = evidence.answers, evidence.tokens
    except (AccuracyError, OSError) as error:
        test.answer_faults.append(Fault(log.path, "unreadable", f"{log.path}: {error}"))
        return
    if test.answers is not None:
        test.answer_faults.extend(_damaged(log, test.answers.problems))
        if main is not None:
            test.answer_faults.extend(_damaged(main, test.answers.reference_problems))
    if test.tokens is not None:
        test.answer_faults.extend(_damaged(log, test.tokens.problems))


def _damaged(log: File, problems: list[Problem]) -> Iterator[Fault]:
    """Answers that could not be read; one Fault for a log."""
    wrong = [problem for problem in problems if problem.kind in DAMAGE]
    if wrong:
        first = wrong[0]
        where = f" (byte {first.offset:,})" if first.offset is not None else ""
        count = sum(problem.count for problem in wrong)
        more = f", and {count - 1:,} more" if count > 1 else ""
        yield Fault(
            log.path,
            "syntax",
            f"found {first.message}{where}{more}; expected only LoadGen's answers",
            fix="copy the log again from where LoadGen wrote it",
        )


def _near(folder: Folder, place: str) -> File | None:
    """The file that was probably meant by ``place``: misspelt there, or in another folder."""
    head, _, name = place.rpartition("/")
    meant = folder.folder(head) if head else folder
    if meant is not None:
        found = nearest(name, list(meant.files)[:MAX_HINTS], 0.85)
        if found is not None:
            return meant.files[found]
    performance = folder.folder("performance")
    runs = performance.folders.values() if performance is not None else ()
    others = (folder, performance, folder.folder("accuracy"), *runs)
    return next((f.files[name] for f in others if f is not None and name in f.files), None)


def _load_endpoints(result: Result, round: Round) -> None:
    """Read an endpoints result: the round has them, and the folder has no LoadGen log."""
    places = round.layout.endpoints
    if not places:
        return
    folders = [run.folder for run in result.runs]
    folders.append(result.accuracy.folder if result.accuracy is not None else None)
    if any(f is not None and (DETAIL in f.files or SUMMARY in f.files) for f in folders):
        return
    files = {kind: result.folder.file_at(places[kind]) for kind in places if kind != "audit"}
    if files.get("config") is None:
        files["config"] = result.folder.files.get("config.yml")
    if not any(files.values()):
        return
    for kind, file in files.items():
        if file is None:
            files[kind] = _near(result.folder, places[kind])
    from checker.parse.endpoints import read_endpoints

    result.endpoints = read_endpoints(
        result.path,
        files.get("config"),
        files.get("performance"),
        files.get("accuracy"),
        result.folder.folder(places.get("audit", "audit")),
    )
    result.runs.clear()
    result.accuracy = None

"""Family W: the files of a measurement, their checksums, and the documents about the system."""

from __future__ import annotations

from collections.abc import Sequence

from checker.model import Result, Submitter
from checker.near import hint, nearest
from checker.parse.documents import Document
from checker.parse.power import PowerLogs
from checker.parse.reading import Folder
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.power.records import LOGS, has_power
from checker.rules.structure.entries import listed
from schemas.round import Round

_KEYS = ("version", "session_name", "uuid", "messages", "phases", "results")
_RECORDED = {
    *(f"{run}/{name}" for run in ("run_1", "ranging")
      for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt", "spl.txt")),
    "power/client.log", "power/server.log", "power/ptd_logs.txt",
}  # fmt: skip
"""Files whose SHA-1 the client and the server record."""

_REJECTED = ("server.json", "client.log", "ptd_logs.txt", "ranging")
"""What the power checks of every round refused a measurement for."""

_DOCUMENTS = ("analyzer_table", "power_settings")


@rule("W101", ERROR, cases={"rejected": ERROR}, when=has_power)
def power_files_present(result: Result, round: Round, folder: Folder) -> Problems:
    """A result with a power measurement has its run, its ranging run and its records.

    Why: power counts only with the meter's samples and the records that tie them to the run.
    Fix: copy the whole output of the power client into performance: power, ranging and run_1.
    Source: submission_rules.adoc, "Power": directory structure.
    """
    base = folder.folder("performance")
    sampled = any(r.folder is not None and "spl.txt" in r.folder.files for r in result.runs)
    if base is None or result.scope == "run":
        return
    if result.power_folder is None and result.ranging is None and not sampled:
        return
    run = round.layout.power_run.required
    for name, required in (
        ("power", round.layout.power.required),
        ("ranging", run),
        ("run_1", run),
    ):
        here = base.folder(name)
        if here is None:
            yield _missing(base, name, f"no folder {name}")
            continue
        for file in required:
            if file not in here.files:
                near = nearest(file, set(here.files) - set(required), 0.85)
                yield _missing(here, file, f"no {file}{hint(near)}")
            elif here.files[file].size == 0 and file == "spl.txt":
                text = "found an empty file; expected the meter's samples"
                yield Problem(text, path=f"{here.path}/{file}", found=0, required="> 0 bytes")


def _missing(here: Folder, name: str, what: str) -> Problem:
    return Problem(
        f"found {what}; a power measurement needs it",
        path=f"{here.path}/{name}",
        required=name,
        case="rejected" if name in _REJECTED else None,
    )


@rule("W102", ERROR, when=has_power, needs=LOGS)
def power_records_complete(result: Result, round: Round, logs: PowerLogs) -> Problems:
    """client.json and server.json state what the power checks need.

    Why: their sessions, phases and checksums tie the meter's samples to the run.
    Fix: use the files as the power client and server wrote them.
    Source: power_measurement.adoc; client.json and server.json of the measurement software.
    """
    for document, keys in ((logs.client, _KEYS), (logs.server, (*_KEYS, "ptd_messages"))):
        if document is None or document.faults:
            continue
        missing = [key for key in keys if not document.fields.get(key)]
        if missing:
            yield Problem(
                f"found no {listed(missing)}; expected them as the software writes them",
                path=document.path,
                found=sorted(str(key) for key in document.fields)[:30],
                required=list(keys),
                count=len(missing),
            )


@rule("W109", ERROR, cases={"unrecorded": WARNING, "line-ends": NOTE}, when=has_power, needs=LOGS)
def files_unchanged(result: Result, round: Round, logs: PowerLogs) -> Problems:
    """The measurement's files have the checksums that client and server recorded.

    Why: a log changed after the measurement does not record it.
    Fix: submit the files as they were written; do not convert their line ends.
    Source: the round's power checker: SHA-1 of the result files in client.json and server.json.
    """
    recorded: dict[str, tuple[str, Document]] = {}
    for document in (logs.client, logs.server):
        table = document.fields.get("results") if document is not None else None
        for name, digest in table.items() if isinstance(table, dict) else ():
            if document is not None:
                recorded[str(name)] = (str(digest).lower(), document)
    if not recorded or result.power_folder is None:
        return
    there = dict(logs.hashes)
    if result.ranging is not None and result.ranging.power is not None:
        there = {**result.ranging.power.hashes, **there}
    base = result.power_folder.path.rpartition("/")[0]
    unrecorded, converted = [], []
    for name, digests in sorted(there.items()):
        if name not in recorded:
            unrecorded += [name] if name in _RECORDED else []
            continue
        digest, document = recorded[name]
        if digest == digests[1] != digests[0]:
            converted.append(name)
        elif digest != digests[0]:
            text = (
                f"found SHA-1 {digests[0]}; expected {digest}, as in "
                f"{document.path.rpartition('/')[2]}"
            )
            yield Problem(text, path=f"{base}/{name}", found=digests[0], required=digest)
    for names, message, case in (
        (unrecorded, "found no recorded checksum of {}; expected SHA-1", "unrecorded"),
        (
            converted,
            "found other line ends than recorded (CRLF) in {}; the text is unchanged",
            "line-ends",
        ),
    ):
        if names:
            text = message.format(listed(names))
            yield Problem(text, path=f"{base}/{names[0]}", found=names, case=case, count=len(names))


@rule("W123", WARNING, when=has_power, needs="complete")
def power_documents_present(submitter: Submitter, round: Round) -> Problems:
    """A measured system has an analyzer_table and a power_settings document.

    Why: they say which meter was connected where, and how the system's power was set.
    Fix: add analyzer_table.md and power_settings.md to the system's folder of measurements.
    Source: submission_rules.adoc, "Power": analyzer table and power settings.
    """
    top = round.layout.measurements.partition("{system}")[0].rstrip("/").rsplit("/", 1)[-1]
    shared = _stems([submitter.folder, submitter.folder.folder("documentation")])
    for name in _measured(submitter):
        own = [submitter.folder.folder(where, name) for where in ("measurements", "results")]
        there = shared | _stems(
            [here for start in own if start is not None for here in start.walk()]
        )
        missing = [stem for stem in _DOCUMENTS if stem not in there]
        if missing:
            yield Problem(
                f"found no {listed(missing)} of the measured system; expected "
                f"{listed(f'{stem}.md' for stem in missing)} (or .pdf)",
                path=f"{submitter.path}/{top}/{name}",
                found=sorted(there & set(_DOCUMENTS)),
                required=missing,
                results=_keys(submitter, name),
                count=len(missing),
            )


@rule("W128", WARNING, needs={"pattern": "round.layout.nameplate_power"})
def nameplate_power_present(submitter: Submitter, round: Round, pattern: str) -> Problems:
    """A measured system states the power that its parts are rated for.

    Why: an average above the rated power, or far below idle power, is not that of the system.
    Fix: write systems/<system>_power.yaml.
    Source: submission_rules.adoc, "Power": nameplate power; in rounds that have the file.
    """
    measured = set(_measured(submitter)) if submitter.complete else set()
    for system in submitter.systems:
        if system.name in measured and system.power_document is None:
            where = pattern.format(
                division=submitter.division, submitter=submitter.name, system=system.name
            )
            text = "found no nameplate power of the measured system"
            yield Problem(text, path=where, required=where, results=system.results)


def _measured(submitter: Submitter) -> list[str]:
    """The systems with a power measurement."""
    results = submitter.folder.folder("results")
    return [
        name
        for name, system in sorted(results.folders.items() if results is not None else ())
        if any(here.path.endswith("/performance/power") for here in system.walk())
    ]


def _keys(submitter: Submitter, system: str) -> tuple[str, ...]:
    return next((s.results for s in submitter.systems if s.name == system), ())


def _stems(folders: Sequence[Folder | None]) -> set[str]:
    return {
        name.rsplit(".", 1)[0].lower()
        for here in folders
        if here is not None
        for name in here.files
    }

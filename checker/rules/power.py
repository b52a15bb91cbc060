"""Family W: the power measurement: by the right meter, of this very run, without a hole."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from checker import metrics
from checker.model import PerformanceRun, RangingRun, Result, Submitter
from checker.parse.documents import Document
from checker.parse.power import Message, PowerLogs, SampleLog, seconds_of
from checker.parse.reading import Folder
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from schemas.report import Severity
from schemas.round import Round

_DOCUMENT_KEYS = ("version", "session_name", "uuid", "messages", "phases", "results")
_SERVER_KEYS = ("ptd_messages",)
_RECORDED = (
    "run_1/mlperf_log_detail.txt", "run_1/mlperf_log_summary.txt", "run_1/spl.txt",
    "ranging/mlperf_log_detail.txt", "ranging/mlperf_log_summary.txt", "ranging/spl.txt",
    "power/client.log", "power/server.log", "power/ptd_logs.txt",
)  # fmt: skip
"""Files whose SHA-1 the client and the server record."""

KNOWN_SOURCES = {
    "c3d6e7b8704a53f047f3723bd4e6bd1b0cf042c2",
    "d14ca11ea1002df7245b1f03ebd39ea7c2fa1919",
}
"""SHA-1 of the measurement software's own table of source checksums, of published results."""

ACCEPTED_MESSAGES = (
    re.compile(r"^ERROR: USB\b"),
    re.compile(r"^ERROR: Can't evaluate uncertainty of this sample!"),
    re.compile(r"^ERROR: Bad (watts|volts|amps|pf) reading "),
)
"""PTDaemon errors that do not spoil a measurement: samples they concern are judged themselves."""

_UNCERTAIN = re.compile(r"^WARNING: Uncertainty ([\d.]+)%, which is above ([\d.]+)% limit")
_UNKNOWN = re.compile(r"^WARNING: Uncertainty unknown")
_VERSION = re.compile(r"\bversion=(\d+(?:\.\d+)+)")
_MAX_UNCERTAINTY = 0.01
_MAX_GAP_S = 5.0
_RATE_HZ = (0.95, 1.05)
_HOUR = 3600.0
_DURATION_PERCENT = 5.0
_PRODUCT_PERCENT = 2.0
_AGREEMENT_PERCENT = 1.0
_DOCUMENTS = ("analyzer_table", "power_settings")


def _has_power(round: Round) -> bool:
    return bool(round.layout.power.required)


def _weight(round: Round) -> Severity | None:
    """Rounds that ran the power checks on request only could publish what they would refuse."""
    return None if round.power.mandatory else WARNING


def _logs(result: Result) -> PowerLogs:
    run = result.performance
    if run is None or run.power is None:
        raise NotJudged
    return run.power


def _document(result: Result, which: str) -> Document:
    found: Document | None = getattr(_logs(result), which)
    if found is None or not found.fields:
        raise NotJudged
    return found


def _samples(run: PerformanceRun | RangingRun) -> tuple[PowerLogs, SampleLog, float, float]:
    logs = run.power
    if logs is None or logs.samples is None or logs.begin is None or logs.end is None:
        raise NotJudged
    if not logs.end > logs.begin:
        raise NotJudged
    return logs, logs.samples, logs.begin, logs.end


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _phases(document: Document) -> dict[str, list[tuple[float, float | None]]]:
    """Each phase's instants as (clock, monotonic clock), seconds; {} for what is none."""
    phases = document.fields.get("phases")
    found: dict[str, list[tuple[float, float | None]]] = {}
    for name, instants in phases.items() if isinstance(phases, dict) else ():
        times = []
        for instant in instants if isinstance(instants, list) else []:
            pair = instant if isinstance(instant, list) else [instant]
            clock = _number(pair[0]) if pair else None
            if clock is None or not math.isfinite(clock):
                break
            times.append((clock, _number(pair[1]) if len(pair) > 1 else None))
        else:
            found[name] = times
    return found


def _exchange(document: Document, key: str) -> list[tuple[str, str]]:
    """Commands and replies of ``messages`` or ``ptd_messages``."""
    entries = document.fields.get(key)
    return [
        (str(entry.get("cmd", "")), str(entry.get("reply", "")))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
    ]


@rule("W101", ERROR, when=_has_power)
def power_files_present(result: Result, round: Round) -> Iterator[Problem]:
    """A result with a power measurement has its run, its ranging run and its records.

    Why: power counts only with the meter's samples and the records that tie them to the run.
    Fix: put the whole output of the power client into performance/: power/, ranging/ and run_1/.
    Source: submission_rules.adoc, "Power": directory structure.
    """
    base = result.folder.folder("performance")
    if base is None or result.scope == "run":
        raise NotJudged
    with_samples = [r for r in result.runs if r.folder is not None and "spl.txt" in r.folder.files]
    if result.power_folder is None and not with_samples and result.ranging is None:
        raise NotJudged
    lists = {
        "power": round.layout.power.required, "ranging": round.layout.power_run.required,
        "run_1": round.layout.power_run.required,
    }  # fmt: skip
    for name, required in lists.items():
        here = base.folder(name)
        if here is None:
            yield Problem(
                f"{base.path} has no folder {name}/; a power measurement needs power/, ranging/ and "
                "run_1/",
                path=f"{base.path}/{name}", required=f"{name}/", severity=_weight(round),
            )  # fmt: skip
            continue
        for file_name in required:
            if file_name not in here.files:
                yield Problem(
                    f"{here.path} has no {file_name}; a power measurement needs it",
                    path=f"{here.path}/{file_name}", required=file_name, severity=_weight(round),
                )  # fmt: skip
            elif here.files[file_name].size == 0 and file_name == "spl.txt":
                yield Problem(
                    f"{here.path}/{file_name} is empty; the meter's samples were asked for",
                    path=f"{here.path}/{file_name}", found=0, required="> 0 bytes",
                    severity=_weight(round),
                )  # fmt: skip


@rule("W102", ERROR, when=_has_power, needs="power_folder")
def power_records_complete(result: Result, round: Round) -> Iterator[Problem]:
    """client.json and server.json say what the power checks need.

    Why: sessions, phases and checksums in them tie the meter's samples to the run.
    Fix: use the files as the power client and server wrote them.
    Source: power_measurement.adoc; client.json and server.json of the measurement software.
    """
    logs = _logs(result)
    for which, keys in (("client", _DOCUMENT_KEYS), ("server", _DOCUMENT_KEYS + _SERVER_KEYS)):
        document: Document | None = getattr(logs, which)
        if document is None or document.faults:
            continue
        missing = [key for key in keys if not document.fields.get(key)]
        if missing:
            yield Problem(
                f"{document.path} does not state {', '.join(missing)}", path=document.path,
                found=sorted(str(k) for k in document.fields)[:30], required=list(keys),
                severity=_weight(round),
            )  # fmt: skip


@rule("W103", ERROR, when=_has_power, needs="power_folder")
def ptdaemon_version(result: Result, round: Round) -> Iterator[Problem]:
    """The meter was read by a PTDaemon version that the round accepts.

    Why: versions differ in how they check ranges and uncertainty.
    Fix: measure with the round's PTDaemon, or ask the power working group to add yours.
    Source: power_measurement.adoc: PTDaemon; the round's power checker.
    """
    if not round.power.ptdaemon_versions:
        raise NotJudged
    server = _document(result, "server")
    reply = _identity(server)
    found = _VERSION.search(reply) if reply is not None else None
    accepted = round.power.ptdaemon_versions
    if found is None:
        yield Problem(
            f"{server.path} does not say which PTDaemon was used; the round accepts "
            f"{', '.join(accepted)}",
            path=server.path, line=server.line_of("ptd_messages"), required=accepted,
            severity=WARNING,
        )  # fmt: skip
    elif found[1] not in accepted:
        yield Problem(
            f"PTDaemon is version {found[1]}, the round accepts {', '.join(accepted)}",
            path=server.path, line=server.line_of("ptd_messages"), found=found[1],
            required=accepted, severity=_weight(round),
        )  # fmt: skip


def _identity(server: Document) -> str | None:
    for command, reply in _exchange(server, "ptd_messages"):
        if command == "Identify" and "," in reply:
            return reply
    return None


@rule("W104", ERROR, when=_has_power, needs="power_folder")
def meter_supported(result: Result, round: Round) -> Iterator[Problem]:
    """The power meter is one that the round accepts.

    Why: only those are accurate enough and known to PTDaemon.
    Fix: measure with a meter of the round's list.
    Source: power_measurement.adoc: accepted power analyzers; the round's power checker.
    """
    if not round.power.meters:
        raise NotJudged
    server = _document(result, "server")
    reply = _identity(server)
    if reply is None:
        raise NotJudged
    name = reply.split(",")[0].strip()
    accepted = round.power.meters
    if name not in accepted:
        yield Problem(
            f"the meter is {name[:60]}, the round accepts {', '.join(sorted(accepted))}",
            path=server.path, line=server.line_of("ptd_messages"), found=name[:60],
            required=sorted(accepted), severity=_weight(round),
        )  # fmt: skip
        return
    config = server.fields.get("ptd_config")
    kind = config.get("device_type") if isinstance(config, dict) else None
    if isinstance(kind, int) and kind not in accepted.values():
        yield Problem(
            f"PTDaemon was started for device type {kind}, {name} has type {accepted[name]}",
            path=server.path, line=server.line_of("device_type"), found=kind,
            required=accepted[name], severity=WARNING,
        )  # fmt: skip


@rule("W105", ERROR, when=_has_power, needs="power_folder")
def no_debug(result: Result, round: Round) -> Iterator[Problem]:
    """The power server did not run in debug mode.

    Why: in debug mode it skips its own checks.
    Fix: measure again without debug.
    Source: power_measurement.adoc; the round's power checker: debug is off.
    """
    logs = _logs(result)
    judged = False
    for document in (logs.server, logs.client):
        if document is None or not document.fields:
            continue
        judged = True
        config = document.fields.get("ptd_config")
        places = [document.fields, config if isinstance(config, dict) else {}]
        if any(
            str(place.get("debug", "")).strip().lower() in ("true", "1", "yes") for place in places
        ):
            yield Problem(
                f"{document.path} says debug: true; false was asked for", path=document.path,
                line=document.line_of("debug"), found=True, required=False,
                severity=_weight(round),
            )  # fmt: skip
    if not judged:
        raise NotJudged


@rule("W106", ERROR, when=_has_power, needs="power_folder")
def clocks_agree(result: Result, round: Round) -> Iterator[Problem]:
    """The client's and the server's clocks agree in every phase.

    Why: samples are chosen by time: with clocks apart they are of another moment.
    Fix: synchronise both machines by NTP (the power client and server do so) and measure again.
    Source: the round's power checker: greatest clock difference between client and server.
    """
    client, server = _document(result, "client"), _document(result, "server")
    limit = round.power.max_clock_difference_ms
    ours, theirs = _phases(client), _phases(server)
    if not ours or not theirs:
        raise NotJudged
    for name in sorted(set(ours) | set(theirs)):
        left, right = ours.get(name, []), theirs.get(name, [])
        if len(left) != len(right):
            yield Problem(
                f"the phase {name} has {len(left)} instants in {client.path} and {len(right)} in "
                f"{server.path}",
                path=server.path, line=server.line_of("phases"), found=len(right),
                required=len(left), severity=_weight(round),
            )  # fmt: skip
            continue
        worst = max(
            (abs(a[0] - b[0]) * 1000 for a, b in zip(left, right, strict=True)), default=0.0
        )
        if worst > limit:
            yield Problem(
                f"the clocks of client and server are {worst:.0f} ms apart in the phase {name}, at "
                f"most {limit:g} ms is allowed",
                path=server.path, line=server.line_of("phases"), found=round_ms(worst),
                required=limit, severity=_weight(round),
            )  # fmt: skip


def round_ms(value: float) -> float:
    """Milliseconds for a report, without false digits."""
    return float(f"{value:.3f}")


@rule("W107", ERROR, when=_has_power, needs="power_folder")
def one_session(result: Result, round: Round) -> Iterator[Problem]:
    """client.json and server.json are of one session: ids, name and messages agree.

    Why: records of two measurements prove nothing of either.
    Fix: submit client.json and server.json of the same measurement.
    Source: power_measurement.adoc; the round's power checker: UUIDs, session name and messages.
    """
    client, server = _document(result, "client"), _document(result, "server")
    for key, what in (("uuid", "UUIDs"), ("session_name", "session names")):
        mine, theirs = client.fields.get(key), server.fields.get(key)
        if mine != theirs:
            yield Problem(
                f"the {what} differ: {_short(mine)} in {client.path}, {_short(theirs)} in {server.path}",
                path=server.path, line=server.line_of(key), found=theirs, required=mine,
                severity=_weight(round),
            )  # fmt: skip
    asked, heard = _exchange(client, "messages"), _exchange(server, "messages")
    for index in range(max(len(asked), len(heard))):
        mine = asked[index] if index < len(asked) else None
        theirs = heard[index] if index < len(heard) else None
        if mine == theirs:
            continue
        yield Problem(
            f"message {index + 1} is {_short(mine)} in {client.path} and {_short(theirs)} in {server.path}",
            path=server.path, line=server.line_of("messages"), found=theirs, required=mine,
            severity=_weight(round),
        )  # fmt: skip
        break


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


@rule("W108", ERROR, when=_has_power)
def interval_in_phase(run: PerformanceRun | RangingRun, round: Round) -> Iterator[Problem]:
    """LoadGen's run lies inside the measurement's phase.

    Why: the meter must have run while LoadGen did.
    Fix: submit the LoadGen logs of the run that was measured.
    Source: the round's power checker: power_begin and power_end inside the testing phase; one hour
    of shift (summer time) is tolerated.
    """
    logs = run.power
    if logs is None or logs.logged_begin is None or logs.logged_end is None:
        raise NotJudged
    document = logs.client if logs.client is not None and logs.client.fields else logs.server
    if document is None:
        raise NotJudged
    name = "ranging" if run.kind == "ranging" else "testing"
    times = _phases(document).get(name, [])
    if len(times) < 3:
        raise NotJudged
    start, stop = times[1][0], times[2][0]
    zone = _number(document.fields.get("timezone")) or 0.0
    base = [0.0] if round.power.clock_is_utc else [0.0, zone]
    shifts = [b + h for b in base for h in (0.0, _HOUR, -_HOUR)]
    if any(start <= logs.logged_begin + s and logs.logged_end + s <= stop for s in shifts):
        return
    before, after = start - logs.logged_begin, logs.logged_end - stop
    how = f"it begins {before:.1f} s before it" if before > 0 else f"it ends {after:.1f} s after it"
    yield Problem(
        f"LoadGen's run is not inside the {name} phase of {document.path}: {how}",
        path=run.detail_path, line=run.detail.line("power_begin") if run.detail else None,
        found=[logs.logged_begin, logs.logged_end], required=[start, stop], severity=_weight(round),
    )  # fmt: skip


@rule("W109", ERROR, when=_has_power, needs="power_folder")
def files_unchanged(result: Result, round: Round) -> Iterator[Problem]:
    """The measurement's files have the checksums that client and server recorded.

    Why: a log changed after the measurement is no record of it.
    Fix: submit the files as they were written; do not convert their line ends.
    Source: the round's power checker: SHA-1 of the result files in client.json and server.json.
    """
    logs = _logs(result)
    recorded: dict[str, tuple[str, Document]] = {}
    for document in (logs.client, logs.server):
        table = document.fields.get("results") if document is not None else None
        if document is not None and isinstance(table, dict):
            for name, digest in table.items():
                recorded[str(name)] = (str(digest).lower(), document)
    if not recorded:
        raise NotJudged
    there = dict(logs.hashes)
    if result.ranging is not None and result.ranging.power is not None:
        there = {**result.ranging.power.hashes, **there}
    base = (
        result.power_folder.path.rsplit("/", 1)[0]
        if result.power_folder is not None
        else result.path
    )
    for name, digests in sorted(there.items()):
        if name not in recorded:
            if name in _RECORDED:
                yield Problem(
                    f"no checksum of {name} is recorded in client.json or server.json",
                    path=f"{base}/{name}", required="SHA-1", severity=WARNING,
                )  # fmt: skip
            continue
        digest, document = recorded[name]
        if digest == digests[0]:
            continue
        if digest == digests[1]:
            yield Problem(
                f"{base}/{name} was recorded with other line ends (CRLF); its text is unchanged",
                path=f"{base}/{name}", found=digests[0], required=digest, severity=NOTE,
            )  # fmt: skip
            continue
        yield Problem(
            f"the SHA-1 of {base}/{name} is {digests[0]}, {document.path} recorded {digest}",
            path=f"{base}/{name}", found=digests[0], required=digest, severity=_weight(round),
        )  # fmt: skip


@rule("W110", WARNING, when=_has_power, needs="power_folder")
def known_sources(result: Result, round: Round) -> Iterator[Problem]:
    """Client and server ran one known version of the measurement software.

    Why: changed measurement software may measure something else.
    Fix: measure with a released version; for a new one, have its checksum added to the list.
    Source: the round's power checker: approved source checksums.
    """
    client, server = _document(result, "client"), _document(result, "server")
    mine, theirs = client.fields.get("sources"), server.fields.get("sources")
    empty = [
        d.path for d, t in ((client, mine), (server, theirs)) if not isinstance(t, dict) or not t
    ]
    if empty or not isinstance(mine, dict) or not isinstance(theirs, dict):
        yield Problem(
            f"{' and '.join(empty)} state no checksums of the measurement software's sources",
            path=empty[0], required="sources",
        )  # fmt: skip
        return
    if mine != theirs:
        other = sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k))
        yield Problem(
            f"client and server ran different sources: {', '.join(map(str, other[:5]))}",
            path=server.path, line=server.line_of("sources"), found=other[:20], required="the same",
        )  # fmt: skip
    digest = sources_digest(theirs)
    if digest not in KNOWN_SOURCES:
        yield Problem(
            f"the measurement software's sources are not known (SHA-1 of their table: {digest})",
            path=server.path, line=server.line_of("sources"), found=digest,
            required=sorted(KNOWN_SOURCES),
        )  # fmt: skip


def sources_digest(sources: dict[str, Any]) -> str:
    """One checksum for a table of source checksums, whatever its order."""
    text = json.dumps(sources, sort_keys=True)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def _in_phase(result: Result, message: Message) -> bool:
    """Whether a PTDaemon message was written while the run was measured."""
    logs = _logs(result)
    time = seconds_of(message.stamp)
    return time is not None and logs.begin is not None and logs.end is not None and (
        logs.begin <= time <= logs.end
    )  # fmt: skip


@rule("W111", ERROR, when=_has_power, needs="power_folder")
def ptdaemon_messages(result: Result, round: Round) -> Iterator[Problem]:
    """PTDaemon reported no unusual error during the run.

    Why: an error of the meter or of its connection may have cost samples.
    Fix: mend the meter's connection and settings, and measure again.
    Source: the round's power checker: uncommon errors in ptd_logs.txt while testing.
    """
    logs = _logs(result)
    if logs.ptd_path is None or not logs.ptd:
        raise NotJudged
    for message in logs.ptd:
        if not message.text.startswith("ERROR") or not _in_phase(result, message):
            continue
        if any(pattern.match(message.text) for pattern in ACCEPTED_MESSAGES):
            continue
        yield Problem(
            f"PTDaemon reported during the run: {message.text[:200]}", path=logs.ptd_path,
            line=message.line, found=message.text[:200], required="no error",
            severity=_weight(round),
        )  # fmt: skip


@rule("W112", ERROR, when=_has_power, needs="power_folder")
def uncertainty(result: Result, round: Round) -> Iterator[Problem]:
    """The meter's uncertainty during the run was below 1 %.

    Why: fixed ranges that do not fit the load make the reading inaccurate.
    Fix: let the ranging run find the ranges (it measures the same load) and measure again.
    Source: power_measurement.adoc: uncertainty of 1 %; PTDaemon's Uncertainty reply.
    """
    server = _document(result, "server")
    replies = [r for c, r in _exchange(server, "ptd_messages") if c == "Uncertainty"]
    stated = None
    started = False
    for command, reply in _exchange(server, "ptd_messages"):
        if command.startswith("Go,"):
            started = command.rstrip().endswith("_testing")
        if command == "Uncertainty" and started:
            parts = reply.split(",")
            try:
                stated = float(parts[1])
            except (IndexError, ValueError):
                continue
    if stated is not None and not 0 <= stated < _MAX_UNCERTAINTY:
        said = "could not be computed" if stated < 0 else f"was {stated * 100:.3g} %"
        yield Problem(
            f"the measurement's uncertainty {said}, less than 1 % was asked for", path=server.path,
            line=server.line_of("ptd_messages"), found=stated, required=f"< {_MAX_UNCERTAINTY}",
            severity=_weight(round),
        )  # fmt: skip
    logs = _logs(result)
    above = unknown = 0
    first: Message | None = None
    for message in logs.ptd:
        high = _UNCERTAIN.match(message.text) is not None
        if (high or _UNKNOWN.match(message.text)) and _in_phase(result, message):
            above += high
            unknown += not high
            first = first or message
    total = len(logs.inside)
    if above and first is not None and total:
        yield Problem(
            f"the uncertainty of {above} of {total} samples was above the limit", path=logs.ptd_path,
            line=first.line, found=above, required=0, severity=WARNING,
        )  # fmt: skip
    if unknown and first is not None and total and not replies:
        yield Problem(
            f"the uncertainty of {unknown} of {total} samples is not known", path=logs.ptd_path,
            line=first.line, found=unknown, required=0, severity=NOTE,
        )  # fmt: skip


@rule("W113", ERROR, when=_has_power, needs=("power_folder", "ranging"))
def power_as_in_ranging(result: Result, round: Round) -> Iterator[Problem]:
    """The run's average power is not far below the ranging run's.

    Why: the meter's ranges were set for the ranging run's load; a much lower one is read badly,
    and shows that another load was measured.
    Fix: let the system settle before, and run the same load in both runs.
    Source: the round's power checker: at least 95 % of the ranging run's average power.
    """
    logs = _logs(result)
    ranging = result.ranging.power if result.ranging is not None else None
    tested, before = logs.average_watts, ranging.average_watts if ranging is not None else None
    if tested is None or before is None:
        raise NotJudged
    least = before * (1 - round.power.max_drop_percent / 100)
    if tested < least:
        yield Problem(
            f"the run's average power is {tested:.4g} W, {tested / before * 100:.3g} % of the ranging "
            f"run's {before:.4g} W; at least {100 - round.power.max_drop_percent:g} % was asked for",
            path=logs.samples.path if logs.samples is not None else logs.path, found=tested,
            required=least, severity=_weight(round),
        )  # fmt: skip


@rule("W114", WARNING, when=_has_power, needs=("power_folder", "ranging"))
def duration_as_in_ranging(result: Result, round: Round) -> Iterator[Problem]:
    """The run and the ranging run took about the same time.

    Why: a run of another length was perhaps another run; systems that throttle differ a little.
    Fix: none is needed where the system's speed changes; else use the same settings in both runs.
    Source: the round's power checker: durations within 5 %, a warning.
    """
    logs = _logs(result)
    ranging = result.ranging.power if result.ranging is not None else None
    if logs.begin is None or logs.end is None or ranging is None:
        raise NotJudged
    if ranging.begin is None or ranging.end is None or ranging.end <= ranging.begin:
        raise NotJudged
    tested, before = logs.end - logs.begin, ranging.end - ranging.begin
    off = abs(tested / before - 1) * 100
    if off > _DURATION_PERCENT:
        run = result.performance
        yield Problem(
            f"the run took {tested:.1f} s and the ranging run {before:.1f} s, {off:.1f} % apart; "
            f"within {_DURATION_PERCENT:g} % is usual",
            path=run.detail_path if run is not None else logs.path, found=round_ms(off),
            required=_DURATION_PERCENT,
        )  # fmt: skip


@rule("W115", ERROR, when=_has_power, needs="power")
def sample_rate(run: PerformanceRun | RangingRun, round: Round) -> Iterator[Problem]:
    """The meter was read about once a second during the run.

    Why: slower sampling misses peaks; two samples a second come from something else.
    Fix: use PTDaemon's interval of 1000 ms and a connection that keeps up with it.
    Source: power_measurement.adoc: sampling interval of one second.
    """
    logs, samples, begin, end = _samples(run)
    count = len(logs.inside)
    if not count or end - begin < 20:
        raise NotJudged
    rate = count / (end - begin)
    low, high = _RATE_HZ
    if not low <= rate <= high:
        yield Problem(
            f"{count} samples in {end - begin:.1f} s are {rate:.3f} a second; {low} to {high} were "
            "asked for",
            path=samples.path, found=float(f"{rate:.4g}"), required=[low, high],
            severity=_weight(round),
        )  # fmt: skip


@rule("W116", ERROR, when=_has_power, needs="power")
def no_gaps(run: PerformanceRun | RangingRun, round: Round) -> Iterator[Problem]:
    """No more than 5 s lie between two samples of the run, and their times only go forward.

    Why: what happened in a gap is not in the average.
    Fix: mend the meter's connection and measure again.
    Source: power_measurement.adoc: sampling interval of one second.
    """
    logs, samples, _, _ = _samples(run)
    inside = logs.inside
    for before, after in itertools.pairwise(inside):
        gap = samples.times[after] - samples.times[before]
        if gap > _MAX_GAP_S or gap < 0:
            what = f"{gap:.1f} s after" if gap > 0 else f"{-gap:.1f} s before"
            yield Problem(
                f"the sample on line {samples.lines[after]} lies {what} the one above it; at most "
                f"{_MAX_GAP_S:g} s was asked for",
                path=samples.path, line=samples.lines[after], found=round_ms(gap),
                required=_MAX_GAP_S, severity=_weight(round),
            )  # fmt: skip


@rule("W117", WARNING, when=_has_power, needs="power")
def watts_sound(run: PerformanceRun | RangingRun, round: Round) -> Iterator[Problem]:
    """Every sample of the run is a finite number of watts above 0.

    Why: a meter that reads -1 or NaN had nothing to read; such samples are left out of the mean.
    Fix: mend the meter's connection and measure again.
    Source: power_measurement.adoc; published samples of -1 W.
    """
    logs, samples, _, _ = _samples(run)
    bad = [i for i in logs.inside if not (0 < samples.watts[i] < 1e9)]
    if bad:
        total = len(logs.inside)
        yield Problem(
            f"{len(bad)} of {total} samples are no power: {samples.watts[bad[0]]:g} W on line "
            f"{samples.lines[bad[0]]}; more than 0 W was asked for",
            path=samples.path, line=samples.lines[bad[0]], found=len(bad), required=0,
        )  # fmt: skip


@rule("W118", WARNING, when=_has_power, needs="power")
def energy_agrees(run: PerformanceRun | RangingRun, round: Round) -> Iterator[Problem]:
    """Average power times time is the energy under the samples.

    Why: they differ when samples are not evenly spaced or some were left out.
    Fix: look for gaps and for samples without power in spl.txt, and measure again.
    Source: energy is the integral of power over time.
    """
    logs, samples, _, _ = _samples(run)
    inside, average = logs.inside, logs.average_watts
    if average is None or len(inside) < 20:
        raise NotJudged
    energy = 0.0
    for before, after in itertools.pairwise(inside):
        step = samples.times[after] - samples.times[before]
        energy += step * (samples.watts[before] + samples.watts[after]) / 2
    span = samples.times[inside[-1]] - samples.times[inside[0]]
    if not math.isfinite(energy) or span <= 0:
        raise NotJudged
    off = abs(energy / (average * span) - 1) * 100
    if off > _AGREEMENT_PERCENT:
        yield Problem(
            f"the samples integrate to {energy:.6g} J, average power times time is "
            f"{average * span:.6g} J, {off:.2f} % apart; within {_AGREEMENT_PERCENT:g} % was asked for",
            path=samples.path, found=float(f"{energy:.6g}"), required=float(f"{average * span:.6g}"),
        )  # fmt: skip


@rule("W119", ERROR, when=_has_power, needs="power")
def interval_covered(run: PerformanceRun | RangingRun, round: Round) -> Iterator[Problem]:
    """Samples cover LoadGen's interval from its begin to its end.

    Why: the average is meant over the whole run, not over a part of it.
    Fix: keep the meter running until LoadGen has ended (the power client does so).
    Source: power_measurement.adoc: samples between power_begin and power_end.
    """
    logs, samples, begin, end = _samples(run)
    inside = logs.inside
    if not inside:
        raise NotJudged
    first, last = samples.times[inside[0]] - begin, end - samples.times[inside[-1]]
    for missing, what, index in (
        (first, "after LoadGen's begin", inside[0]), (last, "before LoadGen's end", inside[-1]),
    ):  # fmt: skip
        if missing > _MAX_GAP_S:
            yield Problem(
                f"the {'first' if index == inside[0] else 'last'} sample lies {missing:.1f} s {what}; "
                f"at most {_MAX_GAP_S:g} s was asked for",
                path=samples.path, line=samples.lines[index], found=round_ms(missing),
                required=_MAX_GAP_S, severity=_weight(round),
            )  # fmt: skip


@rule("W120", ERROR, when=_has_power, needs="power")
def samples_in_interval(run: PerformanceRun | RangingRun, round: Round) -> Iterator[Problem]:
    """There are samples inside LoadGen's interval.

    Why: without one there is no power to publish.
    Fix: submit spl.txt of the measured run; check the clocks and time zones of both machines.
    Source: power_measurement.adoc: samples between power_begin and power_end.
    """
    logs = run.power
    if logs is None or logs.samples is None or not logs.samples.times:
        raise NotJudged
    if logs.begin is None or logs.end is None:
        if run.detail is None or not run.detail:
            raise NotJudged
        yield Problem(
            f"{run.detail_path} does not state power_begin and power_end", path=run.detail_path,
            required=["power_begin", "power_end"], severity=_weight(round),
        )  # fmt: skip
        return
    if logs.inside:
        return
    times = logs.samples.times
    apart = times[0] - logs.end if times[0] >= logs.end else logs.begin - times[-1]
    hours = f" ({apart / 3600:.2f} h: a time zone?)" if apart > 1800 else ""
    yield Problem(
        f"none of {len(times)} samples lies in LoadGen's interval; they are {max(apart, 0):.0f} s "
        f"away{hours}",
        path=logs.samples.path, found=[times[0], times[-1]], required=[logs.begin, logs.end],
    )  # fmt: skip


@rule("W121", WARNING, when=_has_power, needs="power")
def readings_consistent(run: PerformanceRun | RangingRun, round: Round) -> Iterator[Problem]:
    """Watts are volts times amperes times power factor, and the power factor is at most 1.

    Why: the meter measures all four at once; where they disagree, one of them was changed.
    Fix: submit spl.txt as PTDaemon wrote it.
    Source: power factor is active power over apparent power.
    """
    logs, samples, _, _ = _samples(run)
    if samples.channels:
        # Amperes are not summed over channels: each is judged by itself.
        return
    inside = logs.inside
    wrong = beyond = 0
    line = None
    for i in inside:
        watts, product = samples.watts[i], samples.volts[i] * samples.amps[i] * samples.factors[i]
        if not (math.isfinite(watts) and math.isfinite(product)) or watts <= 0 or product <= 0:
            continue
        over = samples.factors[i] > 1.005
        # The meter prints few digits, so a single sample may be off; many are not.
        apart = abs(product / watts - 1) * 100 > _PRODUCT_PERCENT
        if over or apart:
            line = line or samples.lines[i]
        beyond += over
        wrong += apart
    if wrong > len(inside) * 0.05:
        yield Problem(
            f"in {wrong} of {len(inside)} samples watts are not volts x amperes x power factor within "
            f"{_PRODUCT_PERCENT:g} %",
            path=samples.path, line=line, found=wrong, required=0,
        )  # fmt: skip
    if beyond:
        yield Problem(
            f"in {beyond} of {len(inside)} samples the power factor is above 1", path=samples.path,
            line=line, found=beyond, required=0,
        )  # fmt: skip


@rule("W122", NOTE, when=_has_power, needs="power_folder")
def time_zones_agree(result: Result, round: Round) -> Iterator[Problem]:
    """Client and server were set to one time zone, and no hour of shift is needed.

    Why: a reader who compares times by hand must know.
    Fix: set both machines to UTC.
    Source: power_measurement.adoc; client.json and server.json: timezone.
    """
    client, server = _document(result, "client"), _document(result, "server")
    mine, theirs = _number(client.fields.get("timezone")), _number(server.fields.get("timezone"))
    if mine is None or theirs is None:
        raise NotJudged
    if mine != theirs:
        yield Problem(
            f"the client's time zone is {mine / 3600:g} h and the server's {theirs / 3600:g} h from UTC",
            path=server.path, line=server.line_of("timezone"), found=theirs, required=mine,
        )  # fmt: skip


@rule("W123", WARNING, when=_has_power)
def power_documents_present(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """A measured system has an analyzer_table and a power_settings document.

    Why: they say which meter was connected where, and how the system's power was set.
    Fix: put analyzer_table.md and power_settings.md into the system's folder of measurements.
    Source: submission_rules.adoc, "Power": analyzer table and power settings.
    """
    results = submitter.folder.folder("results")
    if not submitter.complete or results is None:
        raise NotJudged
    measured = [name for name, here in sorted(results.folders.items()) if _measured(here)]
    if not measured:
        raise NotJudged
    top = round.layout.measurements.partition("{system}")[0].rstrip("/").rsplit("/", 1)[-1]
    shared = _stems([submitter.folder, submitter.folder.folder("documentation")])
    for name in measured:
        own = [submitter.folder.folder(where, name) for where in ("measurements", "results")]
        walked = [here for start in own if start is not None for here in start.walk()]
        there = shared | _stems(walked)
        for stem in _DOCUMENTS:
            if stem not in there:
                yield Problem(
                    f"the measured system {name} has no {stem} document; {stem}.md or .pdf was asked for",
                    path=f"{submitter.path}/{top}/{name}", found=sorted(there & set(_DOCUMENTS)),
                    required=f"{stem}.*",
                )  # fmt: skip


def _measured(system: Folder) -> bool:
    return any(
        here.name == "power" and here.path.endswith("/performance/power") for here in system.walk()
    )


def _stems(folders: Sequence[Folder | None]) -> set[str]:
    return {
        name.rsplit(".", 1)[0].lower()
        for here in folders
        if here is not None
        for name in here.files
    }


@rule("W124", ERROR, when=_has_power, needs="power_folder")
def power_metric_present(result: Result, round: Round) -> Iterator[Problem]:
    """A measured result has a finite power metric above 0.

    Why: it is what is published for it.
    Fix: submit spl.txt of the measured run and the LoadGen logs of that run.
    Source: submission_rules.adoc, "Power": average power, or energy per query for single streams.
    """
    run = result.performance
    if run is None or run.detail is None or not run.detail or run.power is None:
        raise NotJudged
    if run.power.samples is None or result.scope == "run":
        raise NotJudged
    found = metrics.power_of(result)
    if found is None:
        rules = metrics.scenario_rules(result, result.scenario)
        if run.power.average_watts is None:
            why = "no sample above 0 W lies in the run"
        elif rules is None or rules.power_unit is None:
            why = f"the round has no power metric for {result.name or result.directory} {result.scenario}"
        else:
            why = "the log does not state its time or its query count"
        yield Problem(
            f"there is no power metric: {why}", path=run.power.samples.path, required="> 0",
            severity=_weight(round) if rules is not None and rules.power_unit else WARNING,
        )  # fmt: skip
    elif not 0 < found.value < math.inf:
        yield Problem(
            f"the power metric is {found.value:g} {found.unit}, more than 0 was asked for",
            path=run.power.samples.path, found=found.value, required="> 0",
        )  # fmt: skip


@rule("W125", WARNING, when=_has_power, needs="power_folder")
def meter_protocol(result: Result, round: Round) -> Iterator[Problem]:
    """PTDaemon was asked for a ranging and a testing measurement, and did what it was asked.

    Why: a command that was refused leaves the meter in another state than the records say.
    Fix: use the power server as released, and measure again.
    Source: the round's power checker: order of PTDaemon's commands and its replies.
    """
    server = _document(result, "server")
    exchange = _exchange(server, "ptd_messages")
    if not exchange:
        raise NotJudged
    line = server.line_of("ptd_messages")
    started = [command for command, _ in exchange if command.startswith("Go,")]
    for phase in ("ranging", "testing"):
        if not any(command.rstrip().endswith(f"_{phase}") for command in started):
            yield Problem(
                f"PTDaemon was never told to start the {phase} measurement", path=server.path,
                line=line, found=started[:5], required=f"Go,…_{phase}",
            )  # fmt: skip
    for command, reply in exchange:
        wanted = {"Go": "Starting", "SR": "Range "}.get(command.split(",")[0])
        if wanted is not None and not reply.startswith(wanted):
            yield Problem(
                f"PTDaemon answered {reply[:80]!r} to {command[:60]!r}", path=server.path, line=line,
                found=reply[:80], required=f"{wanted}…",
            )  # fmt: skip


@rule("W126", WARNING, when=_has_power, needs="power")
def samples_of_session(run: PerformanceRun | RangingRun, round: Round) -> Iterator[Problem]:
    """The samples are marked with the session and the phase that the records name.

    Why: samples of another session are of another run.
    Fix: submit the spl.txt that belongs to client.json and server.json.
    Source: PTDaemon's Mark field; session_name of server.json.
    """
    logs = run.power
    if logs is None or logs.samples is None or logs.server is None:
        raise NotJudged
    session = logs.server.fields.get("session_name")
    marks = [mark for mark in logs.samples.marks if mark]
    if not isinstance(session, str) or not session or not marks:
        raise NotJudged
    phase = "ranging" if run.kind == "ranging" else "testing"
    wanted = f"{session}_{phase}"
    for mark in marks:
        if mark != wanted:
            yield Problem(
                f"{logs.samples.marks[mark]} samples are marked {mark[:80]!r}, {wanted!r} was asked for",
                path=logs.samples.path, found=mark[:80], required=wanted,
            )  # fmt: skip


@rule("W127", WARNING, when=_has_power, needs="power_folder")
def meter_average_agrees(result: Result, round: Round) -> Iterator[Problem]:
    """The average that PTDaemon itself reported is that of the submitted samples.

    Why: both are of the same samples; where they disagree, samples were changed or left out.
    Fix: submit spl.txt as PTDaemon wrote it.
    Source: PTDaemon's Watts reply in server.json.
    """
    logs = _logs(result)
    server = _document(result, "server")
    stated = None
    testing = False
    for command, reply in _exchange(server, "ptd_messages"):
        if command.startswith("Go,"):
            testing = command.rstrip().endswith("_testing")
        if command == "Watts" and testing:
            try:
                stated = float(reply.split(",")[1])
            except (IndexError, ValueError):
                continue
    samples = logs.samples
    watts = [w for w in samples.watts if 0 < w < 1e9] if samples is not None else []
    if stated is None or stated <= 0 or not watts or samples is None:
        raise NotJudged
    mean = sum(watts) / len(watts)
    off = abs(mean / stated - 1) * 100
    if off > _AGREEMENT_PERCENT:
        yield Problem(
            f"the samples average {mean:.6g} W, PTDaemon reported {stated:.6g} W, {off:.2f} % apart; "
            f"within {_AGREEMENT_PERCENT:g} % was asked for",
            path=samples.path, found=float(f"{mean:.6g}"), required=stated,
        )  # fmt: skip


@rule("W128", WARNING)
def nameplate_power_present(submitter: Submitter, round: Round) -> Iterator[Problem]:
    """A measured system says what power its parts are rated for.

    Why: an average above the rated power, or far below idle power, is no measurement of the system.
    Fix: write systems/<system>_power.yaml.
    Source: submission_rules.adoc, "Power": nameplate power; asked for where the round has the file.
    """
    pattern = round.layout.nameplate_power
    results = submitter.folder.folder("results")
    if pattern is None or not submitter.complete or results is None:
        raise NotJudged
    measured = {name for name, here in results.folders.items() if _measured(here)}
    if not measured:
        raise NotJudged
    for system in submitter.systems:
        if system.name in measured and system.power_document is None:
            where = pattern.format(
                division=submitter.division, submitter=submitter.name, system=system.name
            )
            yield Problem(
                f"the measured system {system.name} has no {where}", path=where, required=where
            )


@rule("W129", WARNING, when=_has_power, needs=("power_folder", "ranging.detail"))
def ranging_is_the_same_run(result: Result, round: Round) -> Iterator[Problem]:
    """The ranging run was made with the run's scenario and settings.

    Why: ranges found under another load do not fit.
    Fix: run the same command in both phases (the power client does so).
    Source: power_measurement.adoc: the ranging run is a run of the same workload.
    """
    run, ranging = result.performance, result.ranging
    if run is None or run.detail is None or ranging is None or ranging.detail is None:
        raise NotJudged
    for key in ("effective_scenario", "effective_test_mode", "effective_target_qps", "qsl_name",
                "effective_min_query_count"):  # fmt: skip
        mine, theirs = ranging.detail.get(key), run.detail.get(key)
        if mine is not None and theirs is not None and mine != theirs:
            yield Problem(
                f"{key} is {mine!r} in the ranging run and {theirs!r} in the measured run",
                path=ranging.detail_path, line=ranging.detail.line(key), found=mine, required=theirs,
            )  # fmt: skip


@rule("W130", ERROR, when=_has_power, needs="power_folder")
def phases_ordered(result: Result, round: Round) -> Iterator[Problem]:
    """Ranging came before testing, and time only went forward.

    Why: a clock set during the measurement moves the samples away from the run.
    Fix: synchronise the clocks before the measurement, and measure again.
    Source: the round's power checker: order of the phases; their two clocks.
    """
    logs = _logs(result)
    judged = False
    for document in (logs.client, logs.server):
        phases = _phases(document) if document is not None else {}
        if document is None or not phases:
            continue
        judged = True
        line = document.line_of("phases")
        instants = [*phases.get("ranging", []), *phases.get("testing", [])]
        for number, (before, after) in enumerate(itertools.pairwise(instants), 2):
            if after[0] < before[0]:
                yield Problem(
                    f"instant {number} of the phases in {document.path} lies "
                    f"{before[0] - after[0]:.1f} s before the one above it",
                    path=document.path, line=line, found=after[0], required=f">= {before[0]}",
                    severity=_weight(round),
                )  # fmt: skip
            elif before[1] is not None and after[1] is not None:
                jump = abs((after[0] - before[0]) - (after[1] - before[1])) * 1000
                if jump > round.power.max_clock_difference_ms:
                    yield Problem(
                        f"the clock of {document.path} was moved by {jump:.0f} ms between two instants",
                        path=document.path, line=line, found=round_ms(jump),
                        required=round.power.max_clock_difference_ms, severity=WARNING,
                    )  # fmt: skip
    if not judged:
        raise NotJudged

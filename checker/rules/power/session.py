"""Family W: the session: meter, PTDaemon, client and server, their clocks and messages."""

from __future__ import annotations

import itertools
import re
from typing import Any

from checker.model import PoweredRun, Result
from checker.parse.documents import Document
from checker.parse.power import PowerLogs
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.comparing import stated_in
from checker.rules.power.records import (
    CLIENT,
    LOGS,
    SERVER,
    exchange,
    has_power,
    identity,
    number_of,
    phases,
    round_ms,
    sources_digest,
    while_measured,
)
from checker.rules.structure.entries import listed
from checker.wording import number, quantity, rounded, shown
from schemas.load import load_power
from schemas.round import Round

_VERSION = re.compile(r"\bversion=(\d+(?:\.\d+)+)")
_HOUR = 3600.0
_BOTH = {**CLIENT, **SERVER}


@rule("W103", ERROR, cases={"unstated": WARNING}, when=has_power, needs=SERVER)
def ptdaemon_version(
    result: Result, round: Round, server: Document, stated: dict[str, Any]
) -> Problems:
    """The meter was read by a PTDaemon version that the round accepts.

    Why: versions differ in how they check ranges and uncertainty.
    Fix: measure with the round's PTDaemon, or ask the power working group to add yours.
    Source: power_measurement.adoc: PTDaemon; the round's power checker.
    """
    accepted = round.power.ptdaemon_versions
    found = _VERSION.search(identity(server) or "")
    if accepted and (found is None or found[1] not in accepted):
        yield Problem(
            f"found {f'PTDaemon {found[1]}' if found else 'no version of PTDaemon'}; expected "
            f"{listed(accepted)}",
            path=server.path,
            line=server.line_of("ptd_messages"),
            found=found[1] if found else None,
            required=accepted,
            case=None if found else "unstated",
        )


@rule("W104", ERROR, cases={"device-type": WARNING}, when=has_power, needs=SERVER)
def meter_supported(
    result: Result, round: Round, server: Document, stated: dict[str, Any]
) -> Problems:
    """The power meter is one that the round accepts.

    Why: only those are accurate enough and known to PTDaemon.
    Fix: measure with a meter of the round's list.
    Source: power_measurement.adoc: accepted power analyzers; the round's power checker.
    """
    accepted, reply = round.power.meters, identity(server)
    if not accepted or reply is None:
        return
    name = reply.split(",")[0].strip()
    config = stated.get("ptd_config")
    kind = config.get("device_type") if isinstance(config, dict) else None
    if name not in accepted:
        text = f"found the meter {name[:60]}; expected {listed(sorted(accepted), 40)}"
        yield stated_in(server, "ptd_messages", text, name[:60], sorted(accepted))
    elif isinstance(kind, int) and kind not in accepted.values():
        text = f"found device type {kind}; expected {accepted[name]}, that of {name}"
        yield stated_in(server, "device_type", text, kind, accepted[name], case="device-type")


@rule("W105", ERROR, when=has_power, needs=LOGS)
def no_debug(result: Result, round: Round, logs: PowerLogs) -> Problems:
    """The power server did not run in debug mode.

    Why: in debug mode it skips its own checks.
    Fix: measure again without debug.
    Source: power_measurement.adoc; the round's power checker: debug is off.
    """
    for document in (logs.server, logs.client):
        fields = document.fields if document is not None else {}
        config = fields.get("ptd_config")
        values = [fields.get("debug"), config.get("debug") if isinstance(config, dict) else None]
        if document is not None and any(
            str(value).strip().lower() in ("true", "1", "yes") for value in values
        ):
            text = "found debug true; expected false"
            yield stated_in(document, "debug", text, True, False)


@rule("W106", ERROR, when=has_power, needs=_BOTH)
def clocks_agree(
    result: Result,
    round: Round,
    client: Document,
    asked: dict[str, Any],
    server: Document,
    stated: dict[str, Any],
) -> Problems:
    """The client's and the server's clocks agree in every phase.

    Why: samples are chosen by time: with clocks apart they are of another moment.
    Fix: synchronize both machines by NTP (the power client and server do so) and measure again.
    Source: the round's power checker: greatest clock difference between client and server.
    """
    limit = round.power.max_clock_difference_ms
    ours, theirs = phases(client), phases(server)
    for name in sorted(set(ours) | set(theirs)) if ours and theirs else ():
        left, right = ours.get(name, []), theirs.get(name, [])
        apart = [abs(a[0] - b[0]) * 1000 for a, b in zip(left, right, strict=False)]
        if len(left) != len(right):
            message = (
                f"found {quantity(len(right), 'instant')} of the phase {name}; expected "
                f"{number(len(left))}, as in client.json"
            )
            found, required = float(len(right)), float(len(left))
        elif apart and max(apart) > limit:
            message = (
                f"found clocks {number(round_ms(max(apart)))} ms apart in the phase {name}; expected "
                f"at most {number(limit)} ms"
            )
            found, required = rounded(max(apart)), limit
        else:
            continue
        yield stated_in(server, "phases", message, found, required)


@rule("W107", ERROR, when=has_power, needs=_BOTH)
def one_session(
    result: Result,
    round: Round,
    client: Document,
    asked: dict[str, Any],
    server: Document,
    stated: dict[str, Any],
) -> Problems:
    """client.json and server.json are of one session: ids, name and messages agree.

    Why: records of two measurements prove neither.
    Fix: submit client.json and server.json of the same measurement.
    Source: power_measurement.adoc; the round's power checker: UUIDs, session name and messages.
    """
    for key in ("uuid", "session_name"):
        if asked.get(key) != stated.get(key):
            message = (
                f"found {key} {_short(stated.get(key))}; expected {_short(asked.get(key))}, as in "
                "client.json"
            )
            yield stated_in(server, key, message, stated.get(key), asked.get(key))
    pairs = itertools.zip_longest(exchange(client, "messages"), exchange(server, "messages"))
    for index, (mine, theirs) in enumerate(pairs, 1):
        if mine != theirs:
            text = f"found message {index} {_short(theirs)}; expected {_short(mine)}, as in client.json"
            yield stated_in(server, "messages", text, theirs, mine)
            break


def _short(value: object) -> str:
    if isinstance(value, dict):
        return listed(f"{key}: {shown(part)}" for key, part in value.items())
    return " → ".join(map(shown, value)) if isinstance(value, tuple) else shown(value)


@rule("W108", ERROR, when=has_power, needs={"logs": "power"})
def interval_in_phase(run: PoweredRun, round: Round, logs: PowerLogs) -> Problems:
    """LoadGen's run is inside the measurement's phase.

    Why: the meter must have run while LoadGen did.
    Fix: submit the LoadGen logs of the run that was measured.
    Source: the round's power checker: power_begin and power_end inside the testing phase; one hour
        of shift (summer time) is tolerated.
    """
    document = logs.client if logs.client is not None and logs.client.fields else logs.server
    name = "ranging" if run.kind == "ranging" else "testing"
    times = phases(document).get(name, []) if document is not None else []
    if logs.logged_begin is None or logs.logged_end is None or document is None or len(times) < 3:
        return
    start, stop = times[1][0], times[2][0]
    zone = number_of(document.fields.get("timezone")) or 0.0
    base = [0.0] if round.power.clock_is_utc else [0.0, zone]
    shifts = [b + hour for b in base for hour in (0.0, _HOUR, -_HOUR)]
    if any(start <= logs.logged_begin + s and logs.logged_end + s <= stop for s in shifts):
        return
    before, after = start - logs.logged_begin, logs.logged_end - stop
    how = f"a begin {before:,.1f} s before" if before > 0 else f"an end {after:,.1f} s after"
    yield Problem(
        f"found {how} the {name} phase of {document.path.rpartition('/')[2]}; expected the run "
        "inside it",
        path=run.detail_path,
        line=run.detail.line("power_begin") if run.detail else None,
        found=[logs.logged_begin, logs.logged_end],
        required=[start, stop],
    )


@rule("W110", WARNING, when=has_power, needs=_BOTH)
def known_sources(
    result: Result,
    round: Round,
    client: Document,
    asked: dict[str, Any],
    server: Document,
    stated: dict[str, Any],
) -> Problems:
    """Client and server ran one known version of the measurement software.

    Why: changed measurement software may measure something else.
    Fix: measure with a released version; for a new one, have its checksum added to the list.
    Source: the round's power checker: approved source checksums.
    """
    mine, theirs = asked.get("sources"), stated.get("sources")
    if not isinstance(mine, dict) or not isinstance(theirs, dict) or not mine or not theirs:
        first = client if not isinstance(mine, dict) or not mine else server
        text = "found no checksums of the measurement software; expected its sources"
        yield Problem(text, path=first.path, required="sources")
        return
    other = sorted(str(k) for k in {*mine, *theirs} if mine.get(k) != theirs.get(k))
    digest = sources_digest(theirs)
    if other:
        message = f"found sources that differ from the client's: {listed(other, 5)}"
    elif digest not in load_power().sources:
        message = f"found unknown measurement software (SHA-1 of its sources: {digest})"
    else:
        return
    yield Problem(
        f"{message}; expected one released version",
        path=server.path,
        line=server.line_of("sources"),
        found=other[:20] or digest,
        required=sorted(load_power().sources),
    )


@rule("W111", ERROR, when=has_power, needs=LOGS)
def ptdaemon_messages(result: Result, round: Round, logs: PowerLogs) -> Problems:
    """PTDaemon reported no unusual error during the run.

    Why: an error of the meter or of its connection may have cost samples.
    Fix: fix the meter's connection and settings, and measure again.
    Source: the round's power checker: uncommon errors in ptd_logs.txt while testing.
    """
    errors = [
        message
        for message in logs.ptd
        if message.text.startswith("ERROR")
        and not load_power().accepts(message.text)
        and while_measured(logs, message)
    ]
    if errors:
        more = f" (and {quantity(len(errors) - 1, 'more error')})" if len(errors) > 1 else ""
        yield Problem(
            f"found {shown(errors[0].text)} during the run{more}; expected no error",
            path=logs.ptd_path,
            line=errors[0].line,
            found=errors[0].text[:200],
            required="no error",
            count=len(errors),
        )


@rule("W122", NOTE, when=has_power, needs=_BOTH)
def time_zones_agree(
    result: Result,
    round: Round,
    client: Document,
    asked: dict[str, Any],
    server: Document,
    stated: dict[str, Any],
) -> Problems:
    """Client and server were set to one time zone.

    Why: a reader who compares times by hand must know.
    Fix: set both machines to UTC.
    Source: power_measurement.adoc; client.json and server.json: timezone.
    """
    mine, theirs = number_of(asked.get("timezone")), number_of(stated.get("timezone"))
    if mine is not None and theirs is not None and mine != theirs:
        text = (
            f"found the time zone {number(theirs / _HOUR)} h from UTC; expected "
            f"{number(mine / _HOUR)} h, as in client.json"
        )
        yield stated_in(server, "timezone", text, theirs, mine)


@rule("W125", WARNING, when=has_power, needs=SERVER)
def meter_protocol(
    result: Result, round: Round, server: Document, stated: dict[str, Any]
) -> Problems:
    """PTDaemon received the commands of a ranging and a testing measurement, and obeyed them.

    Why: a command that was refused leaves the meter in another state than the records say.
    Fix: use the power server as released, and measure again.
    Source: the round's power checker: order of PTDaemon's commands and its replies.
    """
    messages = exchange(server, "ptd_messages")
    line = server.line_of("ptd_messages")
    started = [command for command, _ in messages if command.startswith("Go,")]
    for phase in ("ranging", "testing") if messages else ():
        if not any(command.rstrip().endswith(f"_{phase}") for command in started):
            text = f"found no command that starts the {phase} measurement; expected Go,…_{phase}"
            yield Problem(
                text, path=server.path, line=line, found=started[:5], required=f"Go,…_{phase}"
            )
    for command, reply in messages:
        wanted = {"Go": "Starting", "SR": "Range "}.get(command.split(",")[0])
        if wanted is not None and not reply.startswith(wanted):
            text = f"found the reply {shown(reply)} to {shown(command)}; expected {wanted.strip()}…"
            yield Problem(
                text, path=server.path, line=line, found=reply[:80], required=f"{wanted}…"
            )


@rule("W130", ERROR, cases={"clock-moved": WARNING}, when=has_power, needs=LOGS)
def phases_ordered(result: Result, round: Round, logs: PowerLogs) -> Problems:
    """Ranging came before testing, and time only went forward.

    Why: a clock that is set during the measurement moves the samples away from the run.
    Fix: synchronize the clocks before the measurement, and measure again.
    Source: the round's power checker: order of the phases; their two clocks.
    """
    limit = round.power.max_clock_difference_ms
    for document in (logs.client, logs.server):
        stated = phases(document) if document is not None else {}
        instants = [*stated.get("ranging", []), *stated.get("testing", [])]
        for at, (before, after) in enumerate(itertools.pairwise(instants), 2):
            jump, case = 0.0, None
            if before[1] is not None and after[1] is not None:
                jump = abs((after[0] - before[0]) - (after[1] - before[1])) * 1000
            if after[0] < before[0]:
                message = (
                    f"found instant {at} of the phases {before[0] - after[0]:,.1f} s before the one "
                    "above it; expected it later"
                )
            elif jump > limit:
                case = "clock-moved"
                message = (
                    f"found a clock that was moved by {number(round_ms(jump))} ms; expected at most "
                    f"{number(limit)} ms"
                )
            else:
                continue
            yield Problem(
                message,
                path=document.path if document is not None else None,
                line=document.line_of("phases") if document is not None else None,
                found=rounded(jump) if case else after[0],
                required=limit if case else f">= {before[0]}",
                case=case,
            )

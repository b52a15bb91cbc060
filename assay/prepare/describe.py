"""Documents that are missing, filled from what the logs say; what only a person knows stays empty.

An empty field is a finding of every check until somebody fills it in; a made-up one would not be.
"""

from __future__ import annotations

import json

from assay.prepare.draft import Draft
from assay.prepare.results import Place, document, places
from checker.near import nearest
from checker.parse.detail import DetailLog
from schemas.round import Round

_SETTINGS = (
    ("target_qps", "Server", "requested_server_target_qps", 1.0),
    ("target_qps", "Offline", "requested_offline_expected_qps", 1.0),
    ("target_latency", "SingleStream", "requested_single_stream_expected_latency_ns", 1e6),
    ("target_latency", "MultiStream", "requested_multi_stream_expected_latency_ns", 1e6),
    ("min_duration", None, "requested_min_duration_ms", 1.0),
    ("max_duration", None, "requested_max_duration_ms", 1.0),
    ("min_query_count", None, "requested_min_query_count", 1.0),
    ("max_query_count", None, "requested_max_query_count", 1.0),
)
"""Setting of user.conf, scenario (None: any), the log's key, how many of the log's units one is."""


def describe(draft: Draft) -> None:
    """Add what is missing: system descriptions and their fields, measurements, user.conf."""
    found = places(draft)
    systems: dict[tuple[str, str], list[Place]] = {}
    for place in found.values():
        systems.setdefault((place.base, place.system), []).append(place)
    for (base, system), members in sorted(systems.items()):
        _system(draft, base, system, members)
    for place in found.values():
        _result(draft, place)


def _system(draft: Draft, base: str, name: str, members: list[Place]) -> None:
    path = f"{base}/systems/{name}.json"
    division, submitter = base.split("/")
    required = draft.round.system_description.required
    known = {"division": division, "submitter": submitter, "system_name": name}
    version = next((v for v in map(_loadgen, members) if v), None)
    if version is not None:
        known["sw_notes"] = f"LoadGen {version}"
    entry = draft.paths().get(path)
    if entry is None:
        fields = {key: known.get(key, "") for key in required}
        draft.add(path, _json(fields), f"{name} has no description", "D101")
        _to_fill(draft, path, fields)
        return
    there = document(draft, path)
    if there is None or there.faults or there.duplicates or not isinstance(there.value, dict):
        return
    fields = dict(there.fields)
    missing = [key for key in required if key not in fields]
    if not missing:
        return
    renamed: dict[str, str] = {}
    for key in list(missing):
        near = nearest(key, [k for k in fields if k not in required], 0.9)
        if near is not None and near not in renamed.values():
            renamed[near] = key
            missing.remove(key)
    fields = {renamed.get(key, key): value for key, value in fields.items()}
    fields.update({key: known.get(key, "") for key in missing})
    what = [f"{old} is spelled {new}" for old, new in renamed.items()]
    what += [f"{', '.join(missing)} added"] if missing else []
    entry.edit(_json(fields), f"fields of {draft.round.name}: {'; '.join(what)}", "D103")
    _to_fill(draft, path, {key: fields[key] for key in missing})


def _to_fill(draft: Draft, path: str, fields: dict[str, str]) -> None:
    """What a person has to write, of the fields that the round wants an answer in."""
    empty = [key for key in draft.round.system_description.non_empty if fields.get(key) == ""]
    if empty:
        draft.decisions.append(f"{path}: fill in {', '.join(empty)}")


def _loadgen(place: Place) -> str | None:
    log = place.detail()
    return log.text("loadgen_version") if log is not None else None


def _json(fields: dict[str, str]) -> str:
    return json.dumps(fields, indent=4, ensure_ascii=False) + "\n"


def _result(draft: Draft, place: Place) -> None:
    """A result's measurements document and user.conf."""
    round = draft.round
    log = place.detail()
    if log is None:
        return  # an endpoints result, or none at all
    folder = measurements_of(place, round)
    names = {e.name for e in place.entries if e.path == f"{folder}/{e.name}"}
    if not any(name.endswith(".json") for name in names):
        pattern = round.layout.measurements_file[0]
        name = pattern.format(system=place.system, scenario=place.folder).replace("*", "")
        path = f"{folder}/{name}"
        fields = dict.fromkeys(round.measurements.required, "")
        place.entries.append(
            draft.add(path, _json(fields), "the result has no measurements document", "M101")
        )
        draft.decisions.append(f"{path}: fill in {', '.join(fields)}")
    if "user.conf" not in names and "user.conf" in round.layout.measurement_files.required:
        text = user_conf(log, place.scenario)
        if text:
            reason = "the result has no user.conf: these are the settings in its log"
            place.entries.append(draft.add(f"{folder}/user.conf", text, reason, "M108"))


def measurements_of(place: Place, round: Round) -> str:
    """The folder of a result's measurements."""
    return round.layout.measurements.format(
        division=place.division,
        submitter=place.submitter,
        system=place.system,
        benchmark=place.directory,
        scenario=place.folder,
    )


def user_conf(log: DetailLog, scenario: str | None) -> str:
    """The settings that a run was given, as LoadGen reads them; empty where its log has none."""
    ran = log.text("requested_scenario") or log.text("effective_scenario") or scenario or "*"
    lines = []
    for name, only, key, unit in _SETTINGS:
        value = log.number(key)
        if value is not None and value > 0 and only in (None, ran):
            lines.append(f"*.{ran}.{name} = {value / unit:.10g}")
    return "\n".join(lines) + "\n" if lines else ""

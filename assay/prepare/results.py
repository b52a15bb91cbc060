"""The results in a draft: which there are, what belongs to each, and what is known of their systems."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from assay.prepare.draft import Draft, Entry
from checker.discover import canonical_scenario
from checker.model import System
from checker.parse.detail import DetailLog
from checker.parse.detail_file import read_detail
from checker.parse.documents import Document, read_json
from schemas.names import benchmark_name


@dataclass(slots=True)
class Place:
    """One result: its names as the folders have them, the round's benchmark and scenario, its files.

    entries: its files in results, and in measurements and compliance beside them.
    """

    division: str
    submitter: str
    system: str
    directory: str
    folder: str
    benchmark: str | None
    scenario: str | None
    entries: list[Entry] = field(default_factory=list)

    @property
    def base(self) -> str:
        """The submitter's folder."""
        return f"{self.division}/{self.submitter}"

    @property
    def key(self) -> str:
        """As a report names it."""
        return f"{self.base}/{self.system}/{self.directory}/{self.folder}"

    @property
    def path(self) -> str:
        """The result's folder."""
        return f"{self.base}/results/{self.system}/{self.directory}/{self.folder}"

    def detail(self) -> DetailLog | None:
        """The detail log of its performance run; None where there is none that can be read."""
        place = f"{self.path}/performance/run_1/mlperf_log_detail.txt"
        entry = next((e for e in self.entries if e.path == place), None)
        log = read_detail(entry.source) if entry is not None and entry.source is not None else None
        return log or None


def places(draft: Draft) -> dict[str, Place]:
    """Every result of a draft by its key; what is beside the results belongs to the result of its
    name, in any case."""
    found: dict[str, Place] = {}
    lower: dict[tuple[str, ...], Place] = {}
    mappings: dict[str, dict[str, str]] = {}
    for entry in draft.kept():
        parts = entry.parts
        if len(parts) < 8 or parts[2] != "results":
            continue
        names = (parts[0], parts[1], parts[3], parts[4], parts[5])
        if names not in lower:
            base = f"{parts[0]}/{parts[1]}"
            if base not in mappings:
                mappings[base] = mapping_of(draft, base)
            place = Place(
                *names,
                benchmark_name(parts[4], draft.round, mappings[base], parts[0]),
                canonical_scenario(parts[5], draft.round.aliases),
            )
            lower[names] = found[place.key] = place
    folded = {tuple(n.lower() for n in names): place for names, place in lower.items()}
    for entry in draft.kept():
        parts = entry.parts
        if len(parts) < 7 or parts[2] not in ("results", "measurements", "compliance"):
            continue
        names = (parts[0], parts[1], parts[3], parts[4], parts[5])
        owner = lower.get(names) or folded.get(tuple(n.lower() for n in names))
        if owner is not None:
            owner.entries.append(entry)
    return found


def document(draft: Draft, path: str) -> Document | None:
    """A JSON document of the draft; None where there is none."""
    entry = draft.paths().get(path)
    if entry is None:
        return None
    if entry.content is not None:
        found = Document(path)
        found.value, found.text = json.loads(entry.content), entry.content
        return found
    return read_json(entry.source) if entry.source is not None else None


def mapping_of(draft: Draft, base: str) -> dict[str, str]:
    """The submitter's own model mapping."""
    name = (draft.round.aliases.mapping_file or "").rsplit("/", 1)[-1]
    found = document(draft, f"{base}/{name}") if name else None
    return {str(k): str(v) for k, v in found.fields.items()} if found is not None else {}


def system_of(draft: Draft, base: str, name: str) -> System:
    """A system with its description."""
    division, submitter = base.split("/")
    path = f"{base}/systems/{name}.json"
    return System(
        division=division, submitter=submitter, name=name, path=path, document=document(draft, path)
    )

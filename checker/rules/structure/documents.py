"""Family S: documents of a submitter, and keys that a JSON document holds twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from checker.model import Result, Submitter, System
from checker.near import MAX_HINTS, hint, nearest
from checker.parse.documents import Document
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.comparing import stated_in
from checker.rules.structure.entries import listed
from checker.wording import shown
from schemas.round import Round


@rule(
    "S110",
    ERROR,
    cases={"empty": WARNING, "anywhere": WARNING},
    divisions=("closed", "network"),
    needs="complete",
)
def calibration_document(submitter: Submitter, round: Round) -> Problems:
    """A document says how the model was calibrated or quantized.

    Why: reviewers must see that only the given calibration data was used.
    Fix: write calibration.md in the submitter's folder or in documentation; if nothing was
        calibrated, it says so.
    Source: inference_rules.adoc, "Quantization": the calibration procedure is described.
    """
    folder = submitter.folder
    wanted = [p.split("/", 2)[2] for p in round.layout.calibration]
    files = [file for name in wanted if (file := folder.file_at(name)) is not None]
    if files and all(file.size == 0 for file in files):
        text = "found an empty document; expected how the model was calibrated"
        yield Problem(text, path=files[0].path, found=0, case="empty")
    if files:
        return
    near = None
    for here in folder.walk():
        for name in (*here.files, *here.folders):
            if "calibration" in name.lower():
                near = f"{here.path}/{name}"
                break
    if near and not wanted:
        return
    yield Problem(
        f"found no document on calibration; expected {listed(wanted or ['calibration.md'])}"
        + hint(near),
        found=near,
        required=wanted or "calibration.md",
        case=None if wanted else "anywhere",
        fix=f"git mv {near} {submitter.path}/{wanted[0]}" if near else None,
    )


@rule("S111", NOTE, divisions=("closed", "network"), needs="complete")
def documentation_present(submitter: Submitter, round: Round) -> Problems:
    """A submitter's folder has documentation; for datacenter systems also on bandwidth.

    Why: readers want to know how the system was set up and whether its network could carry the load.
    Fix: add documentation with calibration.md and, for datacenter systems, bandwidth.md.
    Source: submission_rules.adoc, "Directory structure": documentation; inference_rules.adoc,
        datacenter bandwidth (from v4.0).
    """
    if round.layout.documentation is None:
        return
    documentation = submitter.folder.folder("documentation")
    datacenter = [
        system
        for system in submitter.systems
        if system.has_results and "datacenter" in (system.category or "")
    ]
    if documentation is None:
        yield Problem("found no folder documentation", required="documentation")
    elif datacenter and not any("bandwidth" in f.name.lower() for f in documentation.all_files()):
        text = "found no document on bandwidth; expected bandwidth.md for the datacenter systems"
        yield Problem(text, path=documentation.path, required="bandwidth.md")


@rule("S134", WARNING, cases={"unused": NOTE}, divisions=("open",), needs="mapping")
def mapping_sound(submitter: Submitter, round: Round) -> Problems:
    """The model mapping names folders that exist and benchmarks of the round.

    Why: a folder with a wrong mapping is not held to any benchmark's rules.
    Fix: write every entry as "FOLDER": "BENCHMARK OF THE ROUND".
    Source: submission_rules.adoc, open division: model_mapping.json.
    """
    mapping = submitter.mapping
    if mapping is None or mapping.value is None:
        return
    if not isinstance(mapping.value, dict):
        text = f"found {shown(mapping.value)}; expected an object of folders and benchmarks"
        yield Problem(text, path=mapping.path, required="object")
        return
    folders = {group.directory for group in submitter.benchmarks}
    known = [*round.benchmarks, *round.aliases.exact]
    unused = []
    for key, target in islice(mapping.value.items(), MAX_HINTS):
        keys = tuple(k for g in submitter.benchmarks if g.directory == key for k in g.results)
        if not isinstance(target, str) or target not in known:
            near = nearest(str(target), known, 0.6)
            message = f"found {shown(target)} for {key}; expected a benchmark of {round.name}"
            required = near or sorted(round.benchmarks)
        elif key not in folders and (near := nearest(key, folders, 0.95)):
            message, required = f"found no folder {key} in results", near
        elif key not in folders:
            unused.append(key)
            continue
        elif key in round.benchmarks and target != key:
            near, required = None, key
            message = (
                f"found {key} mapped to {target}; {key} is itself a benchmark of {round.name}, so "
                "the entry has no effect"
            )
        else:
            continue
        yield stated_in(
            mapping, key, message + hint(near), target, required, pointer=f"/{key}", results=keys
        )
    if unused:
        yield Problem(
            f"found entries without a folder in results: {listed(unused, 4)}",
            path=mapping.path,
            line=mapping.line_of(unused[0]),
            pointer=f"/{unused[0]}",
            found=unused[:50],
            required=sorted(folders)[:50],
            results=(),
            case="unused",
            count=len(unused),
        )


@rule("S135", WARNING)
def no_duplicate_keys(subject: System | Submitter | Result, round: Round) -> Problems:
    """No key occurs twice in one object of a JSON document.

    Why: most readers take the last value and some the first, so the document says two things.
    Fix: remove one of the two entries.
    Source: RFC 8259, section 4: names within an object should be unique.
    """
    for document in _documents(subject):
        for key, first, last in document.duplicates:
            text = f"found {key} twice, as {shown(first)} and {shown(last)}; expected it once"
            yield stated_in(document, key, text, [first, last], "once", pointer=f"/{key}")


def _documents(subject: System | Submitter | Result) -> Iterator[Document]:
    """The JSON and YAML documents of a subject that rules read."""
    found: list[Document | None]
    if isinstance(subject, System):
        found = [subject.document]
    elif isinstance(subject, Submitter):
        found = [subject.mapping]
    else:
        found = [subject.measurements]
        power = next((run.power for run in subject.runs if run.power is not None), None)
        if power is not None:
            found += [power.server, power.client]
        if subject.endpoints is not None:
            found += subject.endpoints.documents
    yield from (document for document in found if document is not None)

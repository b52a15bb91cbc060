"""Where the parts of a result lie in a submission tree: the round's data says it.

Round v5.1 keeps measurements and compliance tests beside the results and calls the code folder
`code`; v6.0 and later keep both inside the result and call it `src`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from runner.errors import SettingsError
from schemas import Round, UnknownRound, load_round, round_names
from schemas.timeline import traces_of

DIVISIONS = ("closed", "open", "network")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@=-]*\Z")


def check_name(name: str, what: str) -> str:
    """A folder name that every file system and checker takes.

    Raises:
        SettingsError: empty, with blanks or separators, or beginning with a dot or dash.
    """
    if not _NAME.match(name):
        raise SettingsError(
            f"found {what} {name!r}; expected letters, digits and _ . + @ = -, beginning with a "
            "letter, digit or _."
        )
    return name


def newest_round() -> str:
    """The newest round this version knows; the demo round is not one of MLCommons'."""
    return next(name for name in reversed(round_names()) if name.startswith("v"))


def get_round(name: str | None) -> Round:
    """The round of that name; the newest layout where none is given.

    Raises:
        SettingsError: there is no such round.
    """
    try:
        return load_round(name or newest_round())
    except UnknownRound as error:
        raise SettingsError(str(error)) from error


@dataclass(frozen=True)
class Places:
    """The folders and files of one result.

    Attributes:
        home: the submitter's folder.
        system: the system description's file.
        result: the folder with the runs.
        measurements: the folder with user.conf, README.md and the measurements file.
        measurements_name: that file's name.
        compliance: the folder that holds the compliance tests' folders.
        code: the folder for this benchmark's code.
        documentation: the submitter's documentation folder.
        mapping: the file that maps open-division folders to benchmarks; None where the round
            knows no such file.
        traces: the folder, outside of the tree, for what does not belong in a submission.
    """

    home: Path
    system: Path
    result: Path
    measurements: Path
    measurements_name: str
    compliance: Path
    code: Path
    documentation: Path
    mapping: Path | None
    traces: Path


def places(
    round: Round,
    tree: Path,
    division: str,
    submitter: str,
    system: str,
    directory: str,
    scenario: str,
    implementation: str,
) -> Places:
    """Where this result's parts lie.

    Args:
        directory: the benchmark's folder name.
        implementation: what executes the model, in a folder and file name (v5.1 has it in both).

    Raises:
        SettingsError: no such division, or a name that is not a folder name.
    """
    if division not in DIVISIONS or division not in round.divisions:
        known = [name for name in DIVISIONS if name in round.divisions]
        raise SettingsError(
            f"found division {division!r}; round {round.name} requires {' or '.join(known)}."
        )
    names = {
        "division": division,
        "submitter": check_name(submitter, "submitter"),
        "system": check_name(system, "system"),
        "benchmark": check_name(directory, "benchmark folder"),
        "scenario": scenario,
    }
    layout = round.layout
    home = tree / division / submitter
    pattern = layout.measurements_file[0].format(**names)
    mapping = round.aliases.mapping_file
    return Places(
        home=home,
        system=tree / layout.system.format(**names),
        result=tree / layout.results.format(**names),
        measurements=tree / layout.measurements.format(**names),
        measurements_name=re.sub(r"_?\*_?", f"_{implementation}_", pattern),
        compliance=tree / (layout.compliance or layout.results).format(**names),
        code=home / layout.code[0] / directory / implementation,
        documentation=tree
        / (layout.documentation or "{division}/{submitter}/documentation").format(**names),
        mapping=tree / mapping.format(**names) if mapping and division == "open" else None,
        traces=traces_of(tree) / layout.results.format(**names),
    )

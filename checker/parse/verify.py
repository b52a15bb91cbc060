"""The texts that the compliance scripts write: verify_accuracy.txt, verify_performance.txt, …"""

from __future__ import annotations

import re

import msgspec

from checker.parse.reading import Fault, File, Unreadable, lines_of, read_text

_NUMBER = r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_SCORE = re.compile(r"(reference|test|TEST04-[AB])\s+score\s*=\s*" + _NUMBER, re.IGNORECASE)
_ENTRIES = re.compile(r"(num_\w+)\s*=\s*(\d{1,15})")
_VALUE = re.compile(r"^\s*([A-Za-z]\w*(?:[ \-]\w+){0,6})\s*[:=]\s*" + _NUMBER + r"\s*%?\s*$")
_CHECK = re.compile(
    r"^\s*(?P<name>[A-Za-z][\w \-]{0,60}?)(?: check)? pass: *(?P<state>True|False|Skipped)",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"\b((?:reference|test|TEST04-[AB])\s+score|num_\w+)[ \t]*=[ \t]*(\S*)", re.IGNORECASE
)
_PLAIN = re.compile(_NUMBER)
_PASS = "TEST PASS"
_FAIL = "TEST FAIL"
_MAX_VALUES = 500


class Verification(msgspec.Struct):
    """One verify file: the lines that say PASS and FAIL, and the numbers it states.

    scores: ``reference``, ``test``, ``test04-a``, ``test04-b`` -> the score; score_lines: where.
    counts: ``num_*`` entries; values: other lines ``Name: 12.5`` by their name in lower case, the
    last one of a name; value_lines: where.
    checks: ``EOS check pass: True`` lines as name -> (``true``/``false``/``skipped``, line).
    """

    path: str
    passes: list[int] = []
    fails: list[int] = []
    scores: dict[str, float] = {}
    score_lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    count_lines: dict[str, int] = {}
    values: dict[str, float] = {}
    value_lines: dict[str, int] = {}
    checks: dict[str, tuple[str, int]] = {}
    faults: list[Fault] = []
    text: str = ""

    @property
    def passed(self) -> bool:
        """Whether the file says PASS and never FAIL."""
        return bool(self.passes) and not self.fails


def read_verification(file: File) -> Verification:
    """Read one verify file. Never raises; problems are in ``faults``."""
    result = Verification(file.path)
    try:
        text, faults = read_text(file, 16 * 1024 * 1024)
    except Unreadable as error:
        result.faults.append(error.fault)
        return result
    result.faults.extend(faults)
    result.text = text if len(text) <= 65536 else text[:32768] + text[-32768:]
    for number, line in lines_of(text):
        _line(result, number, line[:4096])
    if not text.strip():
        result.faults.append(
            Fault(
                path=file.path,
                kind="empty",
                message="the file is empty",
                line=1,
                fix="run the test's verification script and save its output",
            )
        )
    return result


def _line(result: Verification, number: int, line: str) -> None:
    if _PASS in line:
        result.passes.append(number)
    if _FAIL in line:
        result.fails.append(number)
    # Most lines hold nothing of interest: a word is found much faster than an expression.
    folded = line.casefold()
    if "score" in folded or "num_" in line:
        _odd_values(result, number, line)
    for which, value in _SCORE.findall(line) if "score" in folded else ():
        result.scores[which.lower()] = float(value)
        result.score_lines[which.lower()] = number
    check = _CHECK.match(line) if "pass:" in folded else None
    if check:
        result.checks[check["name"].strip().lower()] = (check["state"].lower(), number)
    counted = _ENTRIES.findall(line) if "num_" in line else ()
    for name, value in counted:
        result.counts[name] = int(value)
        result.count_lines[name] = number
    stated = None if counted else _VALUE.match(line)
    if stated and len(result.values) < _MAX_VALUES:
        result.values[stated[1].lower()] = float(stated[2])
        result.value_lines[stated[1].lower()] = number


def _odd_values(result: Verification, number: int, line: str) -> None:
    """A score or a count that is present but not a number is a fault, once for a text."""
    for name, value in _STATED.findall(line):
        if not _PLAIN.fullmatch(value.rstrip(",;")) and not any(
            fault.kind == "unusable" for fault in result.faults
        ):
            shown = " ".join(value.split())[:60]
            result.faults.append(
                Fault(
                    path=result.path,
                    kind="unusable",
                    message=f"found {shown or 'nothing'} for {name}; expected a number",
                    line=number,
                    fix="save what the test's verification script writes",
                )
            )

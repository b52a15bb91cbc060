"""What changed from one round to another (Markdown), found by walking the two structures.

Every field of ``schemas.round`` is compared; a field added there needs no edit here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from reports import figures
from schemas.round import Benchmark, Category, Gate, Inference, Metric, Round
from schemas.round_file import NUMBER

_OWN = ("name", "title", "official", "deadline", "published", "benchmarks")
"""Fields of a round that are not compared in general: its identity, and what has a section each."""

_UNITS = {"ns": ("ms", 1e-6), "ms": ("ms", 1), "bytes": ("bytes", 1), "percent": ("%", 1)}
"""How a field ends: the unit that is shown, and its factor."""

_DECIMALS = 10
"""Data is compared: nothing of it is rounded away."""


def changes(old: Round, new: Round) -> str:
    """What changed from one round to another, as release notes made from the data."""
    general = [
        text
        for field in Round.__struct_fields__
        if field not in _OWN
        for text in _differences(_words(field), getattr(old, field), getattr(new, field))
    ]
    lines = [f"# {old.name} to {new.name}", ""]
    lines += [f"* {text}" for text in general] or ["* nothing outside the benchmarks"]
    come = [name for name in new.benchmarks if name not in old.benchmarks]
    gone = [name for name in old.benchmarks if name not in new.benchmarks]
    if come:
        lines += ["", f"New benchmarks: {', '.join(come)}."]
    if gone:
        lines += ["", f"Benchmarks that are gone: {', '.join(gone)}."]
    for name, benchmark in new.benchmarks.items():
        if name in old.benchmarks:
            found = list(_differences("", old.benchmarks[name], benchmark))
            if found:
                lines += ["", f"## {name}", "", *(f"* {text}" for text in found)]
    return "\n".join(lines) + "\n"


def gate_text(gate: Gate, sign: str) -> str:
    """A gate in words: ``F1 >= 90.783 (0.999 x 90.874)``."""
    shown = f"{gate.metric} {sign} {gate.bound:.6g}"
    return shown if gate.factor is None else f"{shown} ({gate.factor:g} x {gate.reference:g})"


def _differences(place: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if type(old) is type(new) and isinstance(old, msgspec.Struct):
        if isinstance(old, (Gate, Metric)):
            yield f"{place}: {_shown(old)} -> {_shown(new)}"
            return
        for field in old.__struct_fields__:
            # A benchmark's scenario is named alone: "Server: ttft 2,000 ms -> 1,500 ms".
            words = "" if isinstance(old, Benchmark) and field == "scenarios" else _words(field)
            yield from _differences(
                " ".join(filter(None, (place, words))), getattr(old, field), getattr(new, field)
            )
    elif isinstance(old, dict) and isinstance(new, dict):
        yield from _keyed(place, old, new)
    elif isinstance(old, list) and isinstance(new, list):
        keyed = _by_name(old), _by_name(new)
        if keyed[0] is not None and keyed[1] is not None:
            yield from _keyed(place, keyed[0], keyed[1])
        elif place == "aliases contains":
            yield f"{place}: {_list_change([*map(_alias, old)], [*map(_alias, new)])}"
        else:
            yield f"{place}: {_list_change(old, new)}"
    else:
        name, _, last = place.rpartition(" ")
        if last not in _UNITS:
            yield f"{place}: {_shown(old)} -> {_shown(new)}"
            return
        unit, scale = _UNITS[last]
        before, after = (
            "none" if v is None else f"{_number(v * scale)} {unit}" for v in (old, new)
        )
        yield f"{name}: {before} -> {after}"


def _keyed(place: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if not old or not new:
        yield f"{place}: {_entries(old)} -> {_entries(new)}"
        return
    for key in dict.fromkeys([*old, *new]):
        where = " ".join(filter(None, (place, key)))
        if key not in new:
            yield f"{where}: removed"
        elif key not in old:
            shown = _shown(new[key])
            yield f"{where}: added{f', {shown}' if shown else ''}"
        else:
            yield from _differences(where, old[key], new[key])


def _entries(table: Mapping[str, Any]) -> str:
    shown = {key: _shown(value) for key, value in table.items()}
    return ", ".join(f"{key} ({text})" if text else key for key, text in shown.items()) or "none"


def _by_name(values: Sequence[Any]) -> dict[str, Any] | None:
    """A list of gates or inferences by what names each; None for a list of anything else."""
    named: dict[str, Any] = {}
    for value in values:
        if isinstance(value, Gate):
            named[value.metric] = value
        elif isinstance(value, Inference):
            named[f"{value.source} to {value.target}"] = value
        else:
            return None
    return named


def _alias(pair: Sequence[str]) -> str:
    return f"{pair[0]} as {pair[1] or 'no benchmark'}"


def _list_change(old: Sequence[Any], new: Sequence[Any]) -> str:
    added = [_shown(value) for value in new if value not in old]
    removed = [_shown(value) for value in old if value not in new]
    if not added and not removed:
        return f"in another order: {', '.join(map(_shown, new))}"
    if not old or not new:
        return f"{', '.join(removed) or 'none'} -> {', '.join(added) or 'none'}"
    parts = []
    if added:
        parts.append(f"added {', '.join(added)}")
    if removed:
        parts.append(f"removed {', '.join(removed)}")
    return "; ".join(parts)


def _shown(value: Any) -> str:
    """A value in words; empty for a structure whose fields would fill a paragraph."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return _number(value)
        case str():
            value = value.replace(NUMBER, "{number}")
            return f"`{value}`" if any(sign in value for sign in "{}*\\|") else value or "nothing"
        case Gate():
            part = "" if value.factor is None else f"{value.factor:g} x "
            return f"{part}{value.reference:g} {value.unit}"
        case Metric():
            return f"{value.key} ({value.unit})"
        case Inference():
            return inferred_value(value)
        case Category():
            return demand(value)
        case list() | tuple():
            return ", ".join(map(_shown, value))
        case _:
            return ""


def inferred_value(inference: Inference) -> str:
    """How an inferred result is computed: ``8,000,000,000 / result_mean_query_latency_ns``."""
    if inference.inverse:
        return f"{_number(inference.scale)} / {inference.key}"
    return (
        inference.key if inference.scale == 1 else f"{_number(inference.scale)} x {inference.key}"
    )


def demand(category: Category) -> str:
    """A category's scenarios in words: ``Offline, Server or Interactive``."""
    parts = list(category.required)
    parts += [" or ".join(group) for group in category.one_of]
    chosen = {s for group in category.one_of for s in group}
    optional = [s for s in category.optional if s not in category.required and s not in chosen]
    return ", ".join(parts) + (f" (optional: {', '.join(optional)})" if optional else "")


def _number(value: float) -> str:
    return figures.number(value, _DECIMALS)


def _words(field: str) -> str:
    return field.replace("_", " ")

"""What a folder's name, or a user's, means in a round."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.round import Round


def benchmark_name(
    directory: str, round: Round, mapping: Mapping[str, str], division: str
) -> str | None:
    """The round's benchmark that a folder's name means; None when it means none.

    Order: the round's own names, exact aliases, the submitter's mapping (open division),
    name parts, exact aliases of what those gave.
    """
    if directory in round.benchmarks:
        return directory
    exact = round.aliases.exact
    if exact.get(directory) in round.benchmarks:
        return exact[directory]
    if division == "open" and directory in mapping:
        mapped = mapping[directory]
        mapped = mapped if mapped in round.benchmarks else exact.get(mapped, mapped)
        if mapped in round.benchmarks:
            return mapped
    for part, target in round.aliases.contains:
        if part in directory:
            target = target if target in round.benchmarks else exact.get(target, target)
            return target if target in round.benchmarks else None
    return None

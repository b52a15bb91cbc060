"""YAML without what no configuration needs, read in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from checker.parse.documents import MAX_DEPTH, MAX_DIGITS


class _FromEvents(Composer, SafeConstructor, Resolver):
    """What `yaml.SafeLoader` makes of a text, of its events: PyYAML's own would scan it again."""

    def __init__(self, events: list[yaml.Event]) -> None:
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)
        self._events = events[::-1]

    def check_event(self, *choices: type) -> bool:
        return bool(self._events) and isinstance(self._events[-1], choices or yaml.Event)

    def peek_event(self) -> yaml.Event | None:
        return self._events[-1] if self._events else None

    def get_event(self) -> yaml.Event | None:
        return self._events.pop() if self._events else None


def composed(text: str) -> tuple[Any, list[tuple[str, str, str]]]:
    """The value of a text (None for a text of comments) and the keys that a mapping has twice, each
    with its first and last value. Raises YAMLError and whatever else PyYAML does."""
    loader = _FromEvents(list(_events(text)))
    node = loader.get_single_node()
    if node is None:
        return None, []
    return loader.construct_document(node), list(_twice(node))


def _events(text: str) -> Iterator[yaml.Event]:
    """The events of a text. Raises YAMLError for what no config needs and what would cost time or memory: aliases (how a
    small file grows without bound), tags, deep nesting (whose time grows with its square)."""
    # The parser itself is slow on deep nesting: brackets are counted before it sees them.
    depth = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if depth > MAX_DEPTH:
            raise yaml.YAMLError(f"found values nested over {MAX_DEPTH} deep")
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        if getattr(event, "tag", None) is not None:
            raise yaml.YAMLError("tags are not accepted")
        depth += isinstance(event, yaml.events.CollectionStartEvent)
        depth -= isinstance(event, yaml.events.CollectionEndEvent)
        if isinstance(event, yaml.events.ScalarEvent) and len(event.value) > MAX_DIGITS:
            digits = event.value.lstrip("+-")
            if digits.replace("_", "").isdigit() and not event.style:
                raise yaml.YAMLError(
                    f"found a number of {len(digits):,} digits; expected at most {MAX_DIGITS}"
                )
        if depth > MAX_DEPTH:
            raise yaml.YAMLError(f"found values nested over {MAX_DEPTH} deep")
        yield event


def _twice(node: Any) -> Iterator[tuple[str, str, str]]:
    """(key, first, last) for every key that a mapping has twice; PyYAML silently takes the last."""
    pairs = node.value if node is not None and node.id == "mapping" else ()
    known: dict[str, str] = {}
    for key, value in pairs:
        text = value.value if value.id == "scalar" else f"a {value.id}"
        if key.id == "scalar":
            if key.value in known:
                yield key.value, known[key.value], text
            known[key.value] = text
        yield from _twice(value)
    if node is not None and node.id == "sequence":
        for item in node.value:
            yield from _twice(item)

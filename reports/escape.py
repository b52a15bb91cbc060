"""Making text from a submission safe to show.

Every string in a report may come from a stranger's file. A terminal obeys escape sequences, a
spreadsheet obeys a leading ``=``, a browser obeys markup, and a reader is misled by marks that
reverse the reading direction. The functions here are the only place where that is dealt with;
each format calls the one that fits its own rules.
"""

from __future__ import annotations

import re

# Whatever draws nothing or moves the cursor: C0 and C1 controls (tab and newline are handled by
# the callers), soft hyphen, bidi marks, zero-width characters, line and paragraph separators,
# byte order mark, lone surrogates (from names that are not UTF-8) and tag characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_BREAKS = re.compile(r"\s*[\r\n\t\x0b\x0c\x85\u2028\u2029]+\s*")
_FORMULA_START = ("=", "+", "-", "@")

MESSAGE_LIMIT = 2_000
NAME_LIMIT = 300
CELL_LIMIT = 32_000  # Excel refuses a cell of more than 32,767 characters


def _spelled(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def clip(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text``, with the rest counted."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… [{len(text) - limit:,} more characters]"


def visible(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text with every unseen character spelled out; tabs and newlines stay."""
    return _UNSEEN.sub(_spelled, clip(text, limit).replace("\r\n", "\n"))


def one_line(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text on a single line with every unseen character spelled out."""
    return _UNSEEN.sub(_spelled, _BREAKS.sub(" ", clip(text, limit)))


def spreadsheet_cell(text: str) -> str:
    """Text for a csv or xlsx cell that no spreadsheet program takes for a formula.

    A leading apostrophe is the mark that spreadsheet programs themselves use for "this is text".
    """
    cell = one_line(text, CELL_LIMIT)
    if text[:1] in ("\t", "\r") or cell.lstrip()[:1] in _FORMULA_START:
        return f"'{cell.lstrip()}"
    return cell


def html_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Text for an HTML element or a quoted attribute."""
    import html

    return html.escape(visible(text, limit), quote=True)


_MARKDOWN_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-!|~>])")
_AUTOLINK = re.compile(r"\b(https?|ftp|mailto|javascript|data)(:)", re.IGNORECASE)
_WWW = re.compile(r"\b(www)\.", re.IGNORECASE)


def markdown_text(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Text for a GitHub comment: no markup, no link, no mention of a user or an issue.

    GitHub looks for mentions and addresses after it has undone backslashes and entities, so the
    character that starts one is put into a span of its own.
    """
    import html

    safe = html.escape(one_line(text, limit), quote=False)
    safe = _MARKDOWN_SPECIAL.sub(r"\\\1", safe)
    return _unlinked(safe).replace("\\#", "<span>#</span>")


def markdown_html(text: str, limit: int = NAME_LIMIT) -> str:
    """Text inside an HTML tag of a GitHub comment, where backslashes would be shown."""

    def entity(match: re.Match[str]) -> str:
        mark = match.group()
        return "<span>#</span>" if mark == "#" else f"&#{ord(mark)};"

    import html

    safe = html.escape(one_line(text, limit), quote=False)
    return _unlinked(_MARKDOWN_SPECIAL.sub(entity, safe))


def _unlinked(safe: str) -> str:
    safe = _AUTOLINK.sub(r"\1<span>\2</span>", safe)
    safe = _WWW.sub(r"\1<span>.</span>", safe)
    return safe.replace("@", "<span>@</span>")


def markdown_code(text: str, limit: int = NAME_LIMIT, *, in_table: bool = False) -> str:
    """Text as a Markdown code span."""
    line = one_line(text, limit).strip() or " "
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    code = f"{fence}{pad}{line}{pad}{fence}"
    # Inside a table even a code span ends at a bar; the backslash before it is then not shown.
    return code.replace("|", "\\|") if in_table else code


def github_data(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Text for the message of a GitHub workflow command."""
    return visible(text, limit).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def github_property(text: str, limit: int = NAME_LIMIT) -> str:
    """Text for a property of a GitHub workflow command."""
    line = one_line(text, limit).replace("%", "%25")
    return line.replace(":", "%3A").replace(",", "%2C")


def json_text(document: str) -> str:
    """A JSON document with every unseen character of its strings written as an escape.

    The document stays equal as JSON. Such characters cannot stand outside a string there.
    """

    def escaped(match: re.Match[str]) -> str:
        code = ord(match.group())
        if code <= 0xFFFF:
            return f"\\u{code:04x}"
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"

    return _UNSEEN.sub(escaped, document)

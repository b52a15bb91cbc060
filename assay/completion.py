"""Completion scripts for bash, zsh and fish, made from the command's own parser.

Nothing is asked at completion time: the script holds the commands, options and values of the
version that printed it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SHELLS = ("bash", "zsh", "fish")

_FILES = ("TREE", "RUN", "FILE", "REPORT.json", "OLD.json", "NEW.json", "OTHER", "D", "B=PATH")
_FOLDERS = ("FOLDER",)


@dataclass(frozen=True)
class Argument:
    """An option or a positional argument: how it is written and what may stand for its value.

    takes: ``nothing`` (a switch), ``words`` (one of ``words``), ``file``, ``folder`` or ``text``.
    """

    flags: tuple[str, ...]
    help: str
    takes: str
    words: tuple[str, ...] = ()
    several: bool = False


@dataclass(frozen=True)
class Command:
    """One command with what may follow it."""

    name: str
    help: str
    options: tuple[Argument, ...]
    positionals: tuple[Argument, ...]


def commands_of(
    parser: argparse.ArgumentParser, values: Mapping[str, Sequence[str]]
) -> list[Command]:
    """The commands of a parser; the first, without a name, is the part before any command.

    ``values`` says which words an argument may hold, by the name it is stored under.
    """
    found = [Command("", "", *_arguments(parser, values, nested=False))]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, child in action.choices.items():
                found.append(Command(name, helps.get(name, ""), *_arguments(child, values)))
    return found


def _arguments(
    parser: argparse.ArgumentParser, values: Mapping[str, Sequence[str]], *, nested: bool = True
) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """Options and positional arguments; with those of a command's own actions where ``nested``."""
    options: list[Argument] = []
    positionals: list[Argument] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            if nested:
                positionals.append(Argument((), "", "words", tuple(action.choices)))
                for child in action.choices.values():
                    more, further = _arguments(child, values)
                    known = {option.flags for option in options}
                    options += [option for option in more if option.flags not in known]
                    positionals += further
            continue
        argument = Argument(
            tuple(action.option_strings),
            " ".join((action.help or "").split()),
            *_value(action, values),
            several=isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+"),
        )
        (options if action.option_strings else positionals).append(argument)
    return tuple(options), tuple(positionals)


def _value(
    action: argparse.Action, values: Mapping[str, Sequence[str]]
) -> tuple[str, tuple[str, ...]]:
    if action.nargs == 0:
        return "nothing", ()
    words = values.get(action.dest) or action.choices
    if words:
        return "words", tuple(str(word) for word in words)
    if action.metavar in _FOLDERS:
        return "folder", ()
    if action.type is Path or action.metavar in _FILES:
        return "file", ()
    return "text", ()


def script(
    shell: str, parser: argparse.ArgumentParser, values: Mapping[str, Sequence[str]] | None = None
) -> str:
    """The completion script for one of ``SHELLS``."""
    makers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return makers[shell](parser.prog, commands_of(parser, values or {}))


# --- bash --------------------------------------------------------------------------------------


def _bash(program: str, commands: list[Command]) -> str:
    values: dict[str, list[str]] = {}
    words: list[str] = []
    for command in commands:
        for option in command.options:
            if option.takes == "nothing":
                continue
            answer = {
                "words": f'COMPREPLY=($(compgen -W "{" ".join(option.words)}" -- "$current"))',
                "folder": 'COMPREPLY=($(compgen -d -- "$current"))',
            }.get(option.takes, ":")
            patterns = values.setdefault(answer, [])
            patterns += [f"{command.name},{flag}" for flag in option.flags]
        flags = [flag for option in command.options for flag in option.flags]
        plain = [word for argument in command.positionals for word in argument.words]
        plain += [other.name for other in commands[1:]] if not command.name else []
        name = command.name or "''"
        words.append(f'        {name}) flags="{" ".join(flags)}"; plain="{" ".join(plain)}" ;;')
    return "\n".join(
        [
            f"# Completion of {program} for bash. Use it now:  source <({program} completion bash)",
            f"# For good: {program} completion bash > ~/.local/share/bash-completion/completions/{program}",
            f"_{program}() {{",
            '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
            "    local command='' flags='' plain=''",
            '    if [ "$COMP_CWORD" -gt 1 ]; then command="${COMP_WORDS[1]}"; fi',
            "    COMPREPLY=()",
            '    case "$command,$previous" in',
            *(f"        {'|'.join(p)}) {answer}; return ;;" for answer, p in values.items()),
            "    esac",
            '    case "$command" in',
            *words,
            "    esac",
            '    case "$current" in',
            '        -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;',
            '        *) COMPREPLY=($(compgen -W "$plain" -- "$current")) ;;',
            "    esac",
            "}",
            "# Where nothing fits, names of files are offered.",
            f"complete -o bashdefault -o default -F _{program} {program}",
            "",
        ]
    )


# --- zsh ---------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _zsh_text(text: str) -> str:
    for sign in "\\[]:":
        text = text.replace(sign, f"\\{sign}")
    return text


def _zsh_value(argument: Argument) -> str:
    if argument.takes == "words":
        return f"value:({' '.join(argument.words)})"
    kinds = {"file": "file:_files", "folder": "folder:_files -/", "text": "value: "}
    return kinds[argument.takes]


def _zsh_specs(command: Command) -> list[str]:
    specs = []
    for option in command.options:
        value = "" if option.takes == "nothing" else f":{_zsh_value(option)}"
        for flag in option.flags:
            star = "*" if option.several else ""
            specs.append(_quoted(f"{star}{flag}[{_zsh_text(option.help)}]{value}"))
    return specs + [
        _quoted(f"{'*' if position.several else ''}:{_zsh_value(position)}")
        for position in command.positionals
    ]


def _zsh(program: str, commands: list[Command]) -> str:
    top, *rest = commands
    lines = [
        f"#compdef {program}",
        f"# Completion of {program} for zsh. Use it now:  source <({program} completion zsh)",
        f"# For good: {program} completion zsh > a folder of $fpath, as a file named _{program}",
        f"_{program}() {{",
        "    local curcontext=$curcontext state line",
        "    local -a commands",
        "    commands=(",
        *(f"        {_quoted(f'{c.name}:{_zsh_text(c.help)}')}" for c in rest),
        "    )",
        f"    _arguments -C {' '.join(_zsh_specs(top))} '1: :->command' '*:: :->rest'",
        '    case "$state" in',
        "        command) _describe command commands ;;",
        "        rest)",
        '            case "$words[1]" in',
    ]
    for command in rest:
        lines.append(f"                {command.name})")
        lines.append(
            "                    _arguments \\\n                        "
            + " \\\n                        ".join(_zsh_specs(command))
            + " ;;"
        )
    lines += [
        "            esac ;;",
        "    esac",
        "}",
        f'if [ "$funcstack[1]" = "_{program}" ]; then',
        f'    _{program} "$@"',
        "else",
        f"    compdef _{program} {program}",
        "fi",
        "",
    ]
    return "\n".join(lines)


# --- fish --------------------------------------------------------------------------------------


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish(program: str, commands: list[Command]) -> str:
    lines = [
        f"# Completion of {program} for fish. Use it now:  {program} completion fish | source",
        f"# For good: {program} completion fish > ~/.config/fish/completions/{program}.fish",
        f"complete -c {program} -n __fish_use_subcommand -f",
    ]
    for command in commands:
        seen = f"'__fish_seen_subcommand_from {command.name}'"
        start = f"complete -c {program} -n {seen if command.name else '__fish_use_subcommand'}"
        if command.name:
            lines.append(
                f"complete -c {program} -n __fish_use_subcommand -f -a {command.name} "
                f"-d {_fish_text(command.help)}"
            )
        for option in command.options:
            flags = " ".join(
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in option.flags
            )
            value = {
                "nothing": "",
                "words": f" -x -a '{' '.join(option.words)}'",
                "folder": " -x -a '(__fish_complete_directories)'",
                "file": " -r",
                "text": " -x",
            }[option.takes]
            lines.append(f"{start} {flags}{value} -d {_fish_text(option.help)}")
        lines += [
            f"{start} -f -a '{' '.join(position.words)}'"
            for position in command.positionals
            if position.takes == "words"
        ]
    return "\n".join([*lines, ""])

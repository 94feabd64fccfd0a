"""``docs/cli.md``: every command with its arguments and options, from the command line itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from didyma.cli import app

EXIT_CODES = (
    (0, "Everything that was judged agrees, or the command did what it was asked to do."),
    (1, "A disagreement was found, or a memory placement is unsound."),
    (2, "The input is bad: a file, a text, an option or a model that cannot be used."),
    (3, "Didyma itself failed. Please report it."),
    (4, "An engine, a planner or a peer needs something that is not installed."),
    (5, "Nothing ran or nothing could be decided, so there is no verdict."),
    (130, "Ctrl-C ended the command."),
    (141, "Whatever read the output ended."),
    (143, "SIGTERM ended the command."),
)


def cli_page() -> str:
    """Return ``docs/cli.md``."""
    group: Any = get_command(app)  # typer has click's classes, in a module of its own or click's
    lines = [
        "# Command line",
        "",
        "Written from the command line's own tables by `nox -s docs`. Every command has `--json`,",
        "which prints one JSON document and nothing else, and `--help`. A file named `-` is read",
        "from stdin. `didyma --install-completion` lets your shell complete commands, options, and",
        "the names of ops, engines, planners and error codes.",
        "",
        "| command | what it does |",
        "|---|---|",
    ]
    commands = sorted(_commands(group))
    for name, command in commands:
        anchor = f"didyma-{name.replace(' ', '-')}"
        lines.append(f"| [`didyma {name}`](#{anchor}) | {command.get_short_help_str(99)} |")
    lines += ["", *_exit_codes()]
    for name, command in commands:
        lines += _command(name, command)
    return "\n".join(lines)


def _commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the commands of a group by name; those of a group in it have two words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield before + name, command


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes"
    yield ""
    yield "| code | meaning |"
    yield "|---:|---|"
    for code, meaning in EXIT_CODES:
        yield f"| {code} | {meaning} |"
    yield ""


def _command(name: str, command: Any) -> Iterator[str]:
    arguments = [_argument(p) for p in command.params if not _is_option(p)]
    yield f"## didyma {name}"
    yield ""
    yield "```text"
    yield " ".join(("didyma", name, *arguments, "[OPTIONS]"))
    yield "```"
    yield ""
    yield command.help
    yield ""
    yield "| argument or option | meaning | default |"
    yield "|---|---|---|"
    for parameter in command.params:
        spelling = _spelling(parameter) if _is_option(parameter) else f"`{_argument(parameter)}`"
        default = parameter.default
        shown = "" if default is None or default is False else f"`{default}`"
        yield f"| {_escaped(spelling)} | {_escaped(parameter.help or '')} | {shown} |"
    yield ""


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _argument(parameter: Any) -> str:
    """Return how an argument is written in the usage line: ``FILE``, ``[NAME]`` or ``FILES...``."""
    word = (parameter.metavar or parameter.name.upper()) + ("..." if parameter.nargs == -1 else "")
    return word if parameter.required else f"[{word}]"


def _spelling(option: Any) -> str:
    """Return an option's names and what stands after them, as Markdown."""
    value = "" if option.is_flag else f" `{option.metavar or option.name.upper()}`"
    return ", ".join(f"`{o}`" for o in sorted(option.opts, key=len)) + value


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

"""``docs/errors.md``: every error code and law, from the tables behind ``didyma explain CODE``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from didyma.codes import LAW, known, meaning

LEVELS = {
    "D": "Laws of sizes",
    "G": "Laws of graphs",
    "L": "Laws of loops",
    "P": "Laws of programs",
}


def errors_page() -> str:
    """Return ``docs/errors.md``."""
    codes = known()
    lines = [
        "# Error codes",
        "",
        "Written from the tables behind `didyma explain CODE` by `nox -s docs`. Bad input raises",
        "`DidymaError`: a stable code, the place, what was found, what was expected, and how to",
        "mend it. A code that begins with a capital letter is a law of the language",
        "([spec.md](spec.md)): a text or program that breaks the law is refused with the law's id",
        "as its code. The command line prints the error and exits with 2, or with 4 when something",
        "is not installed.",
        "",
        "- [Codes](#codes)",
        *(f"- [{title}](#{title.lower().replace(' ', '-')})" for title in LEVELS.values()),
        "",
        *_section("Codes", [c for c in codes if not LAW.fullmatch(c)]),
    ]
    for prefix, title in LEVELS.items():
        laws = [c for c in codes if LAW.fullmatch(c) and c.startswith(f"{prefix}-")]
        lines += _section(title, laws)
    return "\n".join(lines)


def _section(title: str, codes: Sequence[str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield ", ".join(f"[{code}](#{code.lower()})" for code in codes)
    yield ""
    for code in codes:
        yield from _code(code)


def _code(code: str) -> Iterator[str]:
    found = meaning(code)
    assert found is not None
    yield f"### {code}"
    yield ""
    yield found.text.replace("``", "`")
    yield ""
    language = _language(code, found.example)
    if language:
        yield f"```{language}"
        yield found.example.rstrip()
        yield "```"
    else:
        yield f"For example: {found.example}."
    yield ""


def _language(code: str, example: str) -> str:
    """Return the language of an example; empty if it is a description in words."""
    if LAW.fullmatch(code):
        return "dym"
    return {">>>": "python-console", "$": "text"}.get(example.split(" ", maxsplit=1)[0], "")

"""How Sphinx builds the site from these pages: ``nox -s docs``."""

from __future__ import annotations

import re

from pygments.lexer import RegexLexer
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text
from sphinx.application import Sphinx

from didyma import __version__

project = "Didyma"
copyright = "The Didyma authors"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
html_theme = "furo"
html_title = "Didyma"
html_theme_options = {"navigation_with_keys": True}
exclude_patterns = ["_build"]
myst_heading_anchors = 4
myst_enable_extensions = ["deflist", "smartquotes"]
nitpick_ignore_regex = [("py:.*", ".*")]  # types of NumPy and of modules that have no page
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_type_aliases = {
    "AnyArray": "AnyArray",
    "Array": "Array",
    "ArrayLike": "ArrayLike",
    "I64": "I64",
}
python_use_unqualified_type_names = True
autodoc_default_options = {"members": True}
add_module_names = False
copybutton_prompt_text = "$ "


class DymLexer(RegexLexer):
    """Colours the text of graphs, loops and programs."""

    name = "Didyma text"
    aliases = ("dym",)
    tokens = {  # noqa: RUF012  # as Pygments declares it
        "root": [
            (r"#.*$", Comment.Single),
            (r'"[^"\n]*"', String),
            (r"[@%][\w.]+", Name.Variable),
            (
                r"\b(module|func|dims|in|attrs|kernel|primfunc|program|for|let|alloc|bound)\b",
                Keyword,
            ),
            (r"\b(bool|[ui]\d+|f\d\w*|bf16)\b", Keyword.Type),
            (r"-?\b\d[\w.+-]*", Number),
            (r"[\w.]+", Name),
            (r"[-=<>+*/^!&|]+", Operator),
            (r"[(){}\[\],:;]", Punctuation),
            (r"\s+|.", Text),
        ]
    }


def _escape_bars(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep ``|x|`` in a docstring from being read as a substitution; code stays as it is."""
    del app, what, name, obj, options
    lines[:] = [
        x if x.lstrip().startswith((">>>", "...")) else re.sub(r"(``.*?``)|\|", _bar, x)
        for x in lines
    ]


def _bar(found: re.Match[str]) -> str:
    return found[1] or r"\|"


def setup(app: Sphinx) -> None:
    """Name the languages of the code blocks, and let docstrings be mended before they are read."""
    app.connect("autodoc-process-docstring", _escape_bars)
    app.add_lexer("dym", DymLexer)
    app.add_lexer("output", TextLexer)

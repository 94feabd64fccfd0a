"""Every generated page of the documentation, by its file name in ``docs/``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from didyma.functions import standard
from didyma.pages.api import API_PAGES
from didyma.pages.cli import cli_page
from didyma.pages.errors import errors_page
from didyma.pages.ops import ops_page
from didyma.pages.options import options_page
from didyma.pages.spec import spec_page

PAGES: Mapping[str, Callable[[], str]] = {
    **API_PAGES,
    "array-api.md": standard.page,
    "cli.md": cli_page,
    "errors.md": errors_page,
    "ops.md": ops_page,
    "options.md": options_page,
    "spec.md": spec_page,
}

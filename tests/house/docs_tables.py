"""Tables of the docs that are generated from the code: `make docs` (python -m tests.house.docs_tables) writes them.

A table stands between two comments, `<!-- begin NAME: ... -->` and `<!-- end NAME -->`. Its rows are keyed by their first
cell. A test compares the rows that are on the page with the code, so a new detector or command needs no edit of a page:
its row appears when the tables are written the next time. The page of a new detector needs the two comments only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

ROOT = Path(__file__).parents[2]
METHODS = ("get", "put", "post", "patch", "delete")
QUERY_MAX = 12
"""Routes with more parameters have a page of their own that describes them."""


def settings() -> list[str]:
    """Name, variable, default and meaning of every setting."""
    from gpuwatch.settings import ENV_PREFIX, table

    return [
        _row(f"`{name}`", f"`{ENV_PREFIX}{name.upper()}`", f"`{default}`" if default not in (None, "") else "", about)
        for name, default, about in table()
    ]


def kinds() -> list[str]:
    """Every import kind and what it reads."""
    from gpuwatch.core.registry import importers

    bundle = _row("`bundle`", "a directory of the files below: [from files](../get-started/from-files.md)")
    return [bundle, *(_row(f"`{kind}`", one.about) for kind, one in importers().items())]


def commands() -> list[str]:
    """Every command and subcommand with the first line of its help."""
    from typer.main import get_command

    from gpuwatch.cli import app

    rows: list[str] = []

    def walk(command: Any, path: str) -> None:
        below = getattr(command, "commands", {})
        for name in sorted(below):
            if not below[name].hidden:
                walk(below[name], f"{path} {name}")
        if not below:
            rows.append(_row(f"`{path}`", _sentence(command.help or "")))

    walk(get_command(app), "gpuwatch")
    return rows


def detectors() -> list[str]:
    """Every detector with its title and layer."""
    from gpuwatch.rules.rule import layer_of, rules

    return [_row(f"[{name}]({name}.md)", rule.title, layer_of(name)) for name, rule in sorted(rules().items())]


@cache
def routes() -> list[str]:
    """Every route of the API with its summary and the parameters of its query."""
    from gpuwatch.api.app import create_app

    silent = SimpleNamespace(version="0", state=None, routing=None, telemetry=SimpleNamespace(served=lambda *_: None))
    paths = create_app(cast(Any, silent)).openapi()["paths"]
    rows = []
    for path, operations in sorted(paths.items()):
        for method in METHODS:
            if operation := operations.get(method):
                names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
                few = [name for name in names if name not in ("limit", "cursor") and len(names) <= QUERY_MAX]
                shown = " ".join(f"`{name}`" for name in few)
                rows.append(_row(f"`{method.upper()} {path}`", _sentence(operation.get("summary", "")), shown))
    return rows


def buckets() -> list[str]:
    """Every bucket with its label on pages and in tables."""
    from gpuwatch.output.listing import BUCKET_WORDS

    return [_row(f"`{name}`", label) for name, label in BUCKET_WORDS.items()]


def thresholds(rule: str) -> list[str]:
    """Every threshold of a detector with its default and where the number comes from."""
    from gpuwatch.rules.rule import rules
    from tests.worlds.detectors import printed

    return [_row(f"`{one.name}`", printed(one.name, one.value), one.source) for one in rules()[rule].thresholds]


def formats() -> list[str]:
    """Every format of a report with the ending of its files and what it holds."""
    from gpuwatch.report.format_registry import report_formats

    return [_row(f"`{form.name}`", f"`.{form.suffix}`", f"{form.about}.") for form in report_formats().values()]


THRESHOLDS_HEAD = "| Name | Default | Source |\n| --- | --- | --- |\n"

TABLES: dict[str, tuple[str, Callable[[], list[str]]]] = {
    "settings": ("docs/reference/settings.md", settings),
    "buckets": ("docs/understand/dictionary.md", buckets),
    "kinds": ("docs/reference/commands.md", kinds),
    "commands": ("docs/reference/commands.md", commands),
    "detectors": ("docs/detectors/README.md", detectors),
    "routes": ("docs/reference/api.md", routes),
    "report-formats": ("docs/act/reports.md", formats),
    **{
        page.stem: (f"docs/detectors/{page.name}", partial(thresholds, page.stem))
        for page in sorted((ROOT / "docs/detectors").glob("*.md"))
        if f"<!-- begin {page.stem}:" in page.read_text("utf-8")
    },
}
"""Name of a table: its page, and what makes its rows."""


def on_page(name: str) -> list[str]:
    """The rows of a table as its page has them."""
    return _block(name).search(_page(name).read_text("utf-8"))["rows"].splitlines()  # type: ignore[index]


def key(row: str) -> str:
    """The first cell of a row: what the row is about."""
    return row.split("|")[1].strip()


def write() -> list[str]:
    """Writes every table; returns the names of those that changed."""
    changed = []
    for name, (_, rows) in TABLES.items():
        page = _page(name)
        text = page.read_text("utf-8")
        found = _block(name).search(text)
        head = (found and found["head"]) or (THRESHOLDS_HEAD if page.stem == name else "")
        if found is None or not head:
            raise SystemExit(
                f"{page}: no table {name!r}, which is a header between its two comments, and rows below it"
            )
        made = head + "".join(f"{row}\n" for row in rows())
        if found["head"] + found["rows"] != made:
            page.write_text(text[: found.start("head")] + made + text[found.end("rows") :], "utf-8")
            changed.append(name)
    return changed


def _page(name: str) -> Path:
    return ROOT / TABLES[name][0]


def _block(name: str) -> re.Pattern[str]:
    """The comment, the header with the line below it (a new table may lack them), the rows, the comment."""
    line = r"\|[^\n]*\n"
    return re.compile(
        rf"<!-- begin {name}:[^\n]*-->\n(?P<head>(?:{line}{line})?)(?P<rows>(?:{line})*)<!-- end {name} -->"
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _sentence(text: str) -> str:
    """The first sentence of a text, on one line."""
    line = " ".join(text.partition("\n\n")[0].split())
    first = line.partition(". ")[0].removesuffix(".")
    return first if not first or first.endswith("?") else f"{first}."


if __name__ == "__main__":
    sys.stdout.write("".join(f"{name}: written\n" for name in write()))

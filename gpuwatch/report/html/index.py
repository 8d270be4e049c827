"""The index of a folder of report files: one page that says what each file is, and for whom."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from gpuwatch.core.errors import UnreadableInput
from gpuwatch.core.words import size
from gpuwatch.report.files import ReportFile, write
from gpuwatch.report.format_registry import report_formats
from gpuwatch.report.html.markup import Html, join, tag
from gpuwatch.report.html.style import CSS

NAME = "index.html"
FLEET = "fleet"
_FILE = re.compile(r"(fleet|team-[a-z0-9-]+)\.([a-z0-9.]+)")
_HASH = re.compile(r"--[0-9a-f]{32}$")
FOR_FLEET = "For finance and the team that runs the fleet: all teams, and what to do first."
FOR_TEAM = "For the team's lead: what the team pays, which jobs waste, what to change. Nothing about other teams."


def groups(names: Iterable[str]) -> dict[str, list[str]]:
    """The suffixes of the files of each report, the fleet's first: `{"fleet": ["html", "pdf"], "team-nlp": ["html"]}`."""
    order = [form.suffix for form in report_formats().values()]
    found: dict[str, set[str]] = {}
    for one in names:
        if (match := _FILE.fullmatch(one)) is not None and match[2] in order:
            found.setdefault(match[1], set()).add(match[2])
    stems = sorted(found, key=lambda stem: (stem != FLEET, stem))
    return {stem: [suffix for suffix in order if suffix in found[stem]] for stem in stems}


def title(stem: str) -> str:
    """`The fleet`, `Team nlp`."""
    return "The fleet" if stem == FLEET else f"Team {_HASH.sub('', stem.removeprefix('team-'))}"


def index_page(period: str, sizes: dict[str, int]) -> str:
    """The page about the files of a period, by name and size in bytes."""
    found = groups(sizes)
    forms = {form.suffix: form for form in report_formats().values()}
    used = [suffix for suffix in forms if any(suffix in suffixes for suffixes in found.values())]
    rows = [
        tag("tr", tag("td", title(stem), cls="who"), tag("td", [_link(stem, one, sizes) for one in suffixes]))
        for stem, suffixes in found.items()
    ]
    heads = [tag("th", word, scope="col") for word in ("Report", "Files")]
    about = [tag("li", tag("b", forms[one].label or one), f": {forms[one].about}.") for one in used]
    whom = [tag("p", tag("b", "The fleet. "), FOR_FLEET)] if FLEET in found else []
    whom += [tag("p", tag("b", "A team. "), FOR_TEAM)] if len(found) > len(whom) else []
    body = join(
        tag("h1", f"GPU reports, {period}"),
        *whom,
        tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows)),
        tag("h2", "Which file for what"),
        tag("ul", *about),
    )
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"GPU reports, {period}"),
        tag("style", Html(CSS)),
    )
    return f'<!doctype html><html lang="en">{tag("head", head)}{tag("body", body)}</html>\n'


def _link(stem: str, suffix: str, sizes: dict[str, int]) -> Html:
    name = f"{stem}.{suffix}"
    return join(tag("a", suffix, href=name, title=f"{name}, {size(sizes[name])}"), "  ")


def write_index(folder: Path) -> Path:
    """Writes the index of all report files in a folder, whole or not at all; returns its path. Raises UnreadableInput."""
    try:
        sizes = {one.name: one.stat().st_size for one in folder.iterdir() if _FILE.fullmatch(one.name)}
        private = folder.stat().st_mode & 0o077 == 0
    except OSError as error:
        raise UnreadableInput(f"--out {folder.parent}: {error.strerror or error}; choose another directory") from error
    page = ReportFile(f"{folder.name}/{NAME}", index_page(folder.name, sizes).encode())
    return write([page], folder.parent, private)[0]

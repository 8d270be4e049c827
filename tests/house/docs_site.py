"""What MkDocs is given besides docs/: detectors in the navigation, files elsewhere that pages link to, and the logo.

A page links to `../../deploy/prometheus.yml`, which works in the repository. On the site the file is a download, and a link to
a folder, to a page outside docs/, or to a file that is not there is its words alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import normpath
from typing import Any

ROOT = Path(__file__).parents[2]
LOGO = "dashboards/assets/logo.svg"
FOLDER = "project"
_LINK = re.compile(r"\[((?:[^\]\[]|\[[^\]]*\])*)\]\(((?:\.\./)+[^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """The navigation with every page of a folder of which it names README.md alone: a new detector needs no entry."""
    config.nav = with_folders(config.nav)
    return config


def with_folders(entries: list[Any]) -> list[Any]:
    """A navigation with such folders filled."""
    found: list[Any] = []
    for entry in entries:
        if not isinstance(entry, dict):
            found.append(entry)
            continue
        ((title, value),) = entry.items()
        if isinstance(value, list) and len(value) == 1 and str(value[0]).endswith("/README.md"):
            folder = ROOT / "docs" / value[0]
            value = [*value, *sorted(f"{folder.parent.name}/{path.name}" for path in folder.parent.glob("[a-z]*.md"))]
        found.append({title: value})
    return found


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page, with links that leave docs/ as the site has them."""
    return site_links(markdown, page.file.src_uri)


def site_links(text: str, page: str) -> str:
    """Links that leave docs/ on a page of docs/, by its path there."""
    up = "../" * page.count("/")

    def link(found: re.Match[str]) -> str:
        target = normpath(f"docs/{page}/../{found[2]}")
        if target.startswith("docs/"):
            return found[0]
        return f"[{found[1]}]({up}{FOLDER}/{target})" if is_download(target) else found[1]

    return _LINK.sub(link, text)


def is_download(target: str) -> bool:
    """Whether a path of the project is a file to offer: no folder and no page."""
    return (ROOT / target).is_file() and not target.endswith(".md")


def on_files(files: Any, config: Any) -> Any:
    """The files of docs/, the linked ones elsewhere, and the logo."""
    from mkdocs.structure.files import File

    linked = {
        normpath(f"docs/{file.src_uri}/../{found[2]}")
        for file in files.documentation_pages()
        for found in _LINK.finditer(file.content_string)
    }
    for target in sorted(one for one in linked if not one.startswith("docs/") and is_download(one)):
        files.append(File.generated(config, f"{FOLDER}/{target}", abs_src_path=str(ROOT / target)))
    files.append(File.generated(config, "assets/logo.svg", abs_src_path=str(ROOT / LOGO)))
    return files

"""Pictures of one page for its author: a desktop and a phone, light and dark. Needs a running gpuwatch and chromium.

make demo DEMO_ARGS="--size small"                      in one terminal
.venv/bin/python -m bench.look /jobs?window=24h          in another; writes four pictures into build/look
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Literal

from bench.screenshots import PAGE_MS, ROOT, browser, show

BASE = "http://127.0.0.1:8765"
OUT = ROOT / "build" / "look"
WIDTHS = (1440, 390)
HEIGHT = 900
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def look(base: str, path: str, out: Path) -> list[Path]:
    """Writes a picture of the whole page for each width and scheme; returns the files."""
    out.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^a-z0-9]+", "-", path.lower()).strip("-") or "overview"
    files = []
    with browser() as running:
        for width in WIDTHS:
            for scheme in SCHEMES:
                tab = running.new_page(
                    viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, timezone_id="UTC"
                )
                show(tab, f"{base}/ui/{path.lstrip('/')}")
                files.append(out / f"{stem}-{width}-{scheme}.png")
                tab.screenshot(path=files[-1], full_page=True, timeout=PAGE_MS)
                tab.close()
    return files


def main() -> None:
    """Takes the pictures of the page that the command line names."""
    options = argparse.ArgumentParser(
        prog="python -m bench.look", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("path", help="address of the page below /ui, such as /jobs?window=24h")
    options.add_argument("--base", default=BASE, help=f"address of gpuwatch; default: {BASE}")
    options.add_argument("--out", type=Path, default=OUT, help="folder of the pictures; default: build/look")
    chosen = options.parse_args()
    for file in look(chosen.base.rstrip("/"), chosen.path, chosen.out):
        print(file)


if __name__ == "__main__":
    main()

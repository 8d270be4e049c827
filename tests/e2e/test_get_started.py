"""Every command of the pages below Get started, as a reader types it: on a simulated cluster whose programs answer from files.

`make demo` is only checked as make's plan (the demo has tests of its own), a scan of a Prometheus server that is not there must say so,
and the server gets a free port.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.worlds.patience import FACTOR, PATIENCE_S, wait_until

RUN_S = 300 * FACTOR
"""The longest that one block may take."""
ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "get-started"
BLOCK = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$|((?:^ {4}\S[^\n]*\n)+)")
PROGRAMS = {
    "sacct": 'cat "$SITE/slurm/sacct.txt"',
    "scontrol": 'case "$2" in job) cat "$SITE/slurm/scontrol_job.txt";; node) cat "$SITE/slurm/scontrol_node.txt";; '
    'topology) grep -v "^#" "$SITE/slurm/topology.conf";; esac',
    "kubectl": 'cat "$SITE/kubectl.json"',
    "nvidia-smi": 'cat "$SITE"/topo/*.txt | head -40',
    "curl": 'case "$*" in *n1:9400*) zcat "$SITE"/metrics/*.gz | head -2000;; *) exit 7;; esac',
}
"""What the operator's machine has, apart from gpuwatch."""


def blocks(page: str) -> list[str]:
    """The blocks of shell commands of a page: fences without a language that hold a command, and indented lines."""
    text = (PAGES / page).read_text("utf-8")
    found = [
        fenced or re.sub(r"(?m)^ {4}", "", indented)
        for language, fenced, indented in BLOCK.findall(text)
        if not language
    ]
    return [block for block in found if re.search(r"(?m)^(gpuwatch|make|mkdir|curl) ", block)]


@dataclass
class Site:
    """An operator's machine: a folder to work in, and programs."""

    folder: Path
    environment: dict[str, str]

    def run(self, block: str, *allowed: str) -> str:
        """What the commands of a block print. Fails for a command that fails, unless it begins with one of `allowed`."""
        trap = "trap 'echo \"FAILED $? $BASH_COMMAND\" >&2' ERR\nset -E\n"
        done = subprocess.run(
            ["bash", "-c", trap + block], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=RUN_S, check=False,
        )  # fmt: skip
        failed = re.findall(r"(?m)^FAILED (\d+) (.*)$", done.stderr)
        wrong = [f"{command}: {code}" for code, command in failed if not command.startswith(allowed or ("\0",))]
        assert [] == wrong, done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A simulated site of 8 GPUs and one day."""
    folder = tmp_path_factory.mktemp("site")
    programs, dumps = folder / "bin", folder / "dumps"
    programs.mkdir()
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SITE": str(dumps), "COLUMNS": "160"}
    environment.pop("GPUWATCH_DATA", None)
    made = Site(folder, environment)
    made.run(f"gpuwatch simulate --out {dumps} --gpus 8 --days 1 --seed 1")
    items = [item for file in sorted((dumps / "k8s").glob("*.json")) for item in json.loads(file.read_text())["items"]]
    (dumps / "kubectl.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    for name, script in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    made.run(f"cp -r {dumps} BUNDLE")
    return made


def test_an_operator_writes_a_bundle_imports_it_and_reads_who_pays(site: Site) -> None:
    """Also the commands of the quick start, which read the data of a demo."""
    collect, work = blocks("from-files.md")
    site.run(collect)
    written = sorted(
        str(file.relative_to(site.folder / "BUNDLE")) for file in (site.folder / "BUNDLE").rglob("*") if file.is_file()
    )

    assert {"k8s/k8s.json", "slurm/sacct.txt", "slurm/scontrol_job.txt", "slurm/topology.conf", "topo/n1.txt"} <= set(
        written
    )
    assert [1] == [len([name for name in written if name.startswith("metrics/n1-")])]

    # One page is no history: the rest reads the site's own dumps.
    site.run("rm -rf BUNDLE && cp -r dumps BUNDLE")
    printed = site.run(work.replace("--window lastweek", "--window 7d"), "gpuwatch doctor")
    assert "GPU" in printed
    (site.folder / "gpuwatch-demo").symlink_to(site.folder / "gpuwatch-data")
    make, look = blocks("quick-start.md")
    assert "make demo" == make.strip()
    assert "gpuwatch demo" in site.run(f"make -n -C {ROOT} demo")
    assert '"total"' in site.run(look, "gpuwatch doctor")


def test_a_scan_of_a_bundle_writes_a_page_and_one_of_no_server_says_so(site: Site) -> None:
    (block,) = blocks("scan.md")
    printed = site.run(block.replace("http://prometheus:9090", "http://127.0.0.1:1"), "gpuwatch scan http")

    assert "http://127.0.0.1:1" in printed
    assert (site.folder / "gpuwatch-scan" / "scan.html").stat().st_size > 10_000
    assert b"%PDF" == (site.folder / "gpuwatch-scan" / "scan.pdf").read_bytes()[:4]


@pytest.fixture
def server(site: Site) -> Iterator[str]:
    """The server of the page about live clusters, on a free port; its address."""
    serve = blocks("live-cluster.md")[0]
    text = (PAGES / "live-cluster.md").read_text("utf-8")
    (site.folder / "gpuwatch.toml").write_text(text.split("```toml\n")[1].split("```")[0])
    check, run = serve.strip().splitlines()
    site.run(check)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = run.partition("#")[0].replace("./gpuwatch-data", "./live")
    process = subprocess.Popen(f"exec {command} --port {port}", shell=True, cwd=site.folder, env=site.environment)
    base = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None
        try:
            with urllib.request.urlopen(f"{base}/healthz", timeout=PATIENCE_S):
                return True
        except urllib.error.URLError:
            return False

    wait_until(answers, "the server answers")
    yield base
    process.terminate()
    process.wait(RUN_S)


def test_a_live_server_starts_and_asks_for_a_token_once_there_is_one(site: Site, server: str) -> None:
    token = blocks("live-cluster.md")[1]
    assert re.search(r"\bgw[a-z]*_\w+|[\w-]{30,}", site.run(token.replace("./gpuwatch-data", "./live")))

    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{server}/api/v1/fleet", timeout=PATIENCE_S)
    assert 401 == refused.value.code


def test_no_block_of_these_pages_is_left_out() -> None:
    """A new page or block needs a test here."""
    counted = {file.name: len(blocks(file.name)) for file in sorted(PAGES.glob("*.md"))}

    assert {"from-files.md": 2, "live-cluster.md": 2, "quick-start.md": 2, "scan.md": 1} == {
        name: count for name, count in counted.items() if count
    }

"""Accuracy of the detectors on simulated fleets: planted cases, found cases and false findings.

Run as `python -m bench.accuracy --seeds 1003-1022 [--variant base ...] [--out docs/understand/accuracy.md]`.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.reports.accuracy import Counts, report
from gpuwatch.analysis.pipeline import analyze
from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.findings import read as findings_read
from gpuwatch.imports.files import import_paths
from gpuwatch.settings import Settings
from gpuwatch.simulate import simulate
from gpuwatch.simulate.fleet import GPUS_MAX
from gpuwatch.simulate.fleet_scenes import stage
from gpuwatch.simulate.moments import DAY_S, Epoch
from gpuwatch.simulate.scenarios import BLIND, BLIND_SPOT, SCENARIOS
from gpuwatch.simulate.scene import scenes
from gpuwatch.state import State
from gpuwatch.store.database import Store

RESULTS = Path("build/accuracy")
PARTS = (("all", 3.0, 24), ("mig-speculative,own-vs-cloud", 8.0, 8))
"""The fleets of a seed: scenes, days, and GPUs outside scenes, which have the cases of the first detectors and healthy work.
Detectors that need more than three days of data are measured on a small fleet with eight days."""
DAYS = 8.0
MEMORY_LIMIT = "1500MB"
THREADS = 2
STEP_S = 30


@dataclass(frozen=True)
class Variant:
    """How the telemetry of a fleet is sampled."""

    title: str
    step_s: int = STEP_S
    without: tuple[str, ...] = ()
    drop: float = 0.0


VARIANTS = {
    "base": Variant("All fields, a sample each 30 s"),
    "no-sm-active": Variant("SM_ACTIVE missing on the whole fleet", without=("SM_ACTIVE",)),
    "drop30": Variant("30 % of the samples lost at random", drop=0.3),
    "step60": Variant("A sample each 60 s", step_s=60),
}


@dataclass
class Outcome:
    """The results of one detector on one fleet."""

    planted: int = 0
    found: int = 0
    right: int = 0
    false: int = 0
    decoys: int = 0
    decoys_hit: int = 0
    missed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulates, imports and analyzes each fleet without a stored result, then writes the table of all fleets."""
    parser = argparse.ArgumentParser(prog="bench.accuracy", description=__doc__)
    parser.add_argument("--seeds", default="1003-1022", help="first-last, or numbers separated by commas")
    parser.add_argument("--variant", action="append", choices=sorted(VARIANTS), help="default: all")
    parser.add_argument("--out", type=Path, default=None, help="the page to write, such as docs/understand/accuracy.md")
    parser.add_argument("--scenes", default="", help="one fleet with the scenes of these detectors (commas) or all")
    parser.add_argument("--days", type=float, default=DAYS, help="length of that one fleet")
    parser.add_argument("--core", type=int, default=16, help="its GPUs outside scenes")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for the results of single fleets")
    parser.add_argument("--again", action="store_true", help="also fleets with a stored result")
    parser.add_argument("--stored", action="store_true", help="simulate nothing: only fleets with a stored result")
    given = parser.parse_args(arguments)
    seeds, chosen = _seeds(given.seeds), given.variant or list(VARIANTS)
    parts = ((given.scenes, given.days, given.core),) if given.scenes else PARTS
    given.results.mkdir(parents=True, exist_ok=True)
    for variant in chosen:
        for seed in seeds:
            kept = given.results / f"{variant}-{seed}.json"
            if not given.stored and (given.again or not kept.is_file()):
                started = time.monotonic()
                result = joined([measured(seed, VARIANTS[variant], *part) for part in parts])
                result["seconds"] = round(time.monotonic() - started, 1)
                kept.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
                print(
                    f"{variant} seed {seed}: {result['seconds']} s, including {result['import_s']:.0f} import, {result['analyze_s']:.0f} analysis",
                    flush=True,
                )
                _print_outcomes(result)
    counts = {variant: _counts(given.results, variant, seeds) for variant in chosen}
    titles = {variant: VARIANTS[variant].title for variant in chosen}
    text = report(counts, titles, shapes())
    if given.out is not None:
        given.out.write_text(text, "utf-8")
    else:
        print(text)


def shapes() -> list[str]:
    """Rows of detector, planted shapes and decoys of a fleet with all scenes."""
    shapes_of: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for first in SCENARIOS:
        shapes_of.setdefault(first.detector, ({}, {}))[0 if first.planted else 1][first.name] = None
    shapes_of[BLIND_SPOT] = (dict.fromkeys(BLIND), {})
    epoch = Epoch(0, int(DAYS * DAY_S))
    labels = stage("all", GPUS_MAX, epoch, STEP_S, 1).labels
    for place, cases in enumerate((labels.planted, labels.decoys)):
        for case in cases:
            shapes_of.setdefault(case.detector, ({}, {}))[place][case.shape] = None
    return [
        f"| `{name}` | {', '.join(a) or 'none'} | {', '.join(b) or 'none'} |"
        for name, (a, b) in sorted(shapes_of.items())
    ]


def joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The results of the fleets of one seed as one: counts and lists add up."""
    whole: dict[str, Any] = {"detectors": {}, "failed_rules": [], "import_s": 0.0, "analyze_s": 0.0}
    for part in parts:
        for name, outcome in part["detectors"].items():
            mine = whole["detectors"].setdefault(name, Outcome().__dict__.copy())
            whole["detectors"][name] = {key: mine[key] + value for key, value in outcome.items()}
        for key in ("failed_rules", "import_s", "analyze_s"):
            whole[key] += part[key]
    return whole


def measured(seed: int, variant: Variant, wanted: str, days: float, core: int) -> dict[str, Any]:
    """Simulates, imports and analyzes one fleet: {"detectors": {id: Outcome as dict}, "failed_rules": [...]}."""
    with tempfile.TemporaryDirectory(prefix="accuracy-") as folder:
        return _measured(Path(folder), seed, variant, wanted, days, core)


def _measured(folder: Path, seed: int, variant: Variant, wanted: str, days: float, core: int) -> dict[str, Any]:
    gpus = core + sum(s.gpus for s in scenes() if wanted == "all" or s.detector in wanted.split(","))
    bundle = folder / "bundle"
    truth = simulate(
        bundle, gpus, days, seed, variant.step_s, scenes=wanted, without=variant.without, drop=variant.drop
    ).plain()
    (bundle / "truth.json").unlink()
    settings = Settings(memory_limit=MEMORY_LIMIT, threads=THREADS)
    store = Store.open(folder / "data", threads=THREADS, memory_limit=MEMORY_LIMIT)
    state = State.open("sqlite://")
    clocks = [time.monotonic()]
    try:
        read = import_paths(store, state, "bundle", [bundle], cluster=None, now_us=0)
        shutil.rmtree(bundle)
        clocks.append(time.monotonic())
        done = analyze(store, state, settings, now_us=parse_rfc3339(str(truth["window"]["end"])))  # type: ignore[index]
        clocks.append(time.monotonic())
        findings = [finding.as_dict() for finding in findings_read.read(store) if finding.suppressed_by is None]
    finally:
        store.close()
        state.close()
    outcomes = compare(judgeable(truth, variant.without), findings)
    return {
        "detectors": {name: outcome.__dict__ for name, outcome in sorted(outcomes.items())},
        "import_s": round(clocks[1] - clocks[0], 1),
        "analyze_s": round(clocks[2] - clocks[1], 1),
        "failed_rules": [*done.failed_rules, *map(str, read.unreadable)],
    }


def judgeable(truth: dict[str, Any], without: Sequence[str]) -> dict[str, Any]:
    """The truth of a fleet without some metrics: a decoy that only these could show is allowed either way."""
    hidden = [case for case in truth["decoys"] if set(case["needs"]) & set(without)]
    allowed = [{"detector": case["detector"], "subject": case["subject"]} for case in hidden]
    decoys = [case for case in truth["decoys"] if case not in hidden]
    return {**truth, "decoys": decoys, "allowed": [*truth["allowed"], *allowed]}


def compare(truth: dict[str, Any], findings: Iterable[dict[str, Any]]) -> dict[str, Outcome]:
    """The outcome of each detector. A planted case is found by a finding with its subject at an overlapping time."""
    allowed = {(a["detector"], a["subject"]["kind"], a["subject"]["id"]) for a in truth["allowed"]}
    by_detector: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        by_detector.setdefault(finding["detector"], []).append(finding)
    names = {case["detector"] for case in truth["planted"] + truth["decoys"]} | set(by_detector)
    outcomes = {}
    for name in sorted(names):
        planted, decoys = ([c for c in truth[kind] if c["detector"] == name] for kind in ("planted", "decoys"))
        outcomes[name] = _outcome(by_detector.get(name, []), planted, decoys, allowed)
    return outcomes


def _outcome(
    findings: list[dict[str, Any]],
    planted: list[dict[str, Any]],
    decoys: list[dict[str, Any]],
    allowed: set[tuple[str, str, str]],
) -> Outcome:
    outcome = Outcome(planted=len(planted), decoys=len(decoys))
    matched: set[str] = set()
    for case in planted:
        hits = {finding["key"] for finding in findings if meets(finding, case)}
        matched |= hits
        outcome.found += bool(hits)
        if not hits:
            outcome.missed.append(f"{case['shape']}: {case['subject']['kind']} {case['subject']['id']}")
    others = [finding for finding in findings if finding["key"] not in matched]
    outcome.right = len(findings) - len(others)
    outcome.decoys_hit = sum(any(meets(finding, case) for finding in others) for case in decoys)
    for finding in others:
        subject = finding["subject"]
        if (finding["detector"], subject["kind"], subject["id"]) not in allowed:
            outcome.false += 1
            shape = next((case["shape"] for case in decoys if meets(finding, case)), "unplanned")
            words = f"{shape}: {subject['kind']} {subject['id']} from {finding['started_at']}: {finding['summary']}"
            outcome.wrong.append(words)
    return outcome


def meets(finding: dict[str, Any], case: dict[str, Any]) -> bool:
    """Whether a finding is about the subject of a case, at a time at which the case has its condition."""
    if (finding["subject"]["kind"], finding["subject"]["id"]) != (case["subject"]["kind"], case["subject"]["id"]):
        return False
    start = parse_rfc3339(finding["started_at"])
    end = math.inf if finding["ended_at"] is None else parse_rfc3339(finding["ended_at"])
    return any(
        start < parse_rfc3339(interval["end"]) and parse_rfc3339(interval["start"]) < end
        for interval in case["intervals"]
    )


def _counts(results: Path, variant: str, seeds: Sequence[int]) -> Counts:
    """Sums over the fleets with a stored result."""
    total: dict[str, Outcome] = {}
    measured_seeds, failed = [], 0
    for seed in seeds:
        kept = results / f"{variant}-{seed}.json"
        if not kept.is_file():
            continue
        result = json.loads(kept.read_text("utf-8"))
        measured_seeds.append(seed)
        failed += bool(result["failed_rules"])
        for name, outcome in result["detectors"].items():
            mine = total.setdefault(name, Outcome())
            outcome["wrong"] = [f"seed {seed}, {text}" for text in outcome["wrong"]]
            for key, value in outcome.items():
                setattr(mine, key, getattr(mine, key) + value)
    return Counts(measured_seeds, failed, total)


def _print_outcomes(result: dict[str, Any]) -> None:
    for text in result["failed_rules"]:
        print(f"  failed: {text}")
    for name, outcome in result["detectors"].items():
        print(
            f"  {name}: {outcome['found']}/{outcome['planted']} found, {outcome['false']} false, "
            f"{outcome['decoys_hit']}/{outcome['decoys']} decoys"
        )
        for text in outcome["missed"]:
            print(f"    missed {text}")
        for text in outcome["wrong"]:
            print(f"    false {text}")


def _seeds(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(part) for part in text.split(",")]


if __name__ == "__main__":
    main()

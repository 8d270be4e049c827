"""The FinOps Foundation's focus-validator reads the FOCUS 1.2 file, offline.

It needs Python 3.12 and versions of its own, so it has an environment of its own, built once under build/. Its rule set
says of InvoiceId that it must be NULL and that it must not be, joined by "or": of two such rules one always fails. A
failed rule counts where no "or" that it stands in has passed.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.billing.focus import export as focus_export
from gpuwatch.core.clock import Window
from tests.worlds.focus import MONTH, NOW_US, everything
from tests.worlds.patience import PATIENCE_S

PACKAGE, RULES = "focus-validator==2.2.1", "1.2.0.1"
NEEDS = [PACKAGE, "pyarrow<21"]
HOME = Path(__file__).parents[2] / "build" / "focus-validator"
KINDS = {"Usage", "Purchase", "Adjustment"}
COVERED = {"InvoiceId-C-005-C"}
"""The rules that fail and are excused, all of them: that InvoiceId is not NULL, of which C-004-C says that it is NULL."""
UNREADABLE = {"CAPACITY_RESERVATION_SUPPORTED", "COMMITMENT_DISCOUNT_SUPPORTED"}
"""Rules of these contradict each other in this rule set: CapacityReservationStatus-C-004-C has a condition that is not read
and so holds for every row, CommitmentDiscountStatus-C-004-C asks for a status where there is no commitment."""


def interpreter() -> str | None:
    """A Python of 3.12 or newer that starts; None where there is none."""
    pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.1[2-9]*/bin/python"))
    named = [found for name in ("python3.12", "python3.13", "python3.14") if (found := shutil.which(name))]
    for python in [*map(str, pyenv), *named]:
        result = subprocess.run(
            [python, "-c", "import sys, venv, ensurepip; print(sys.version_info >= (3, 12))"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if result.stdout.strip() == "True":
            return python
    return None


@dataclass(frozen=True)
class Validator:
    """The installed tool: its program, and the folder in which it looks for its rules."""

    program: Path
    site: Path

    def failures(self, file: Path, *more: str) -> tuple[int, dict[str, str], set[str]]:
        """(rules that were checked, id -> message of the failed ones that no passed "or" covers, those that one covers)."""
        report = file.with_suffix(".xml")
        done = subprocess.run(
            [self.program, "--data-file", file, "--block-download", "--validate-version", RULES,
             "--output-type", "unittest", "--output-destination", report, *more],
            cwd=self.site, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip
        assert report.exists(), done.stdout + done.stderr
        cases = list(ET.parse(report).iter("testcase"))
        bad = {name(case): "; ".join(f.get("message", "") for f in failed(case)) for case in cases if failed(case)}
        passed = {name(case) for case in cases if not failed(case) and case.find("skipped") is None}
        covered = {child for parent in passed for child in self.alternatives().get(parent, ())}
        left = {rule: entry for rule, entry in bad.items() if rule not in covered}
        return len(passed) + len(bad), left, bad.keys() & covered

    def model(self) -> dict[str, Any]:
        """The rule set."""
        text = (self.site / "focus_validator" / "rules" / f"model-{RULES}.json").read_text("utf-8")
        found: dict[str, Any] = json.loads(text)
        return found

    def alternatives(self) -> dict[str, list[str]]:
        """Rules of which one is enough, by the rule that says so."""
        found = {}
        for rule, entry in self.model()["ModelRules"].items():
            need = entry["ValidationCriteria"]["Requirement"]
            if need.get("CheckFunction") == "OR":
                found[rule] = [item["ModelRuleId"] for item in need["Items"] if "ModelRuleId" in item]
        return found


def failed(case: ET.Element) -> list[ET.Element]:
    return case.findall("failure") + case.findall("error")


def name(case: ET.Element) -> str:
    return (case.get("name") or "").split(" ")[0].split("::")[0]


@pytest.fixture(scope="module")
def validator() -> Iterator[Validator]:
    """Built once; skipped where it cannot be had."""
    python = interpreter()
    if python is None:
        pytest.skip("focus-validator needs Python >= 3.12, and none is here")
    binaries = HOME / "bin"
    if not (HOME / "complete").exists():
        shutil.rmtree(HOME, ignore_errors=True)
        subprocess.run([python, "-m", "venv", HOME], check=True, timeout=3 * PATIENCE_S)
        got = subprocess.run(
            [binaries / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--no-compile", *NEEDS],
            capture_output=True, text=True, check=False, timeout=3 * PATIENCE_S,
        )  # fmt: skip
        if got.returncode:
            pytest.skip(f"{PACKAGE} cannot be installed: {got.stderr.strip().splitlines()[-1]}")
        (HOME / "complete").write_text(PACKAGE, "utf-8")
    (site,) = HOME.glob("lib/python3.*/site-packages")
    yield Validator(binaries / "focus-validator", site)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A month with every kind of row."""
    path = tmp_path_factory.mktemp("focus") / "month.csv"
    world, state = everything()
    # Cut where a correction is billed: before it is taken off the week that it is of, behind it is added.
    parts = [io.BytesIO(), io.BytesIO()]
    for part, window in zip(parts, (Window(MONTH.start_us, NOW_US), Window(NOW_US, MONTH.end_us)), strict=True):
        focus_export.write(world.store, state, window, part)
    path.write_bytes(parts[0].getvalue() + parts[1].getvalue().partition(b"\n")[2])
    text = path.read_text("utf-8")
    assert all(f",{kind}," in text for kind in (*KINDS, "Correction", "Used", "Unused", "3g.40gb", "schedulable"))
    return path


def test_no_rule_of_1_2_fails(validator: Validator, exported: Path) -> None:
    checked, failures, covered = validator.failures(exported)

    assert {} == failures
    assert COVERED == covered
    assert checked > 100


def test_none_fails_where_everything_is_supported(validator: Validator, exported: Path) -> None:
    """With the rules that hold for providers of commitments apart: see UNREADABLE."""
    criteria = sorted(set(validator.model()["ApplicabilityCriteria"]) - UNREADABLE)
    checked, failures, covered = validator.failures(exported, "--applicability-criteria", ",".join(criteria))

    assert {} == failures
    assert covered == COVERED
    assert checked > 250


def test_a_wrong_file_is_found_out(validator: Validator, exported: Path, tmp_path: Path) -> None:
    """The judge judges: a currency that does not exist."""
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(exported.read_text("utf-8").replace(",USD,", ",Euro,"), "utf-8")

    assert "BillingCurrency-C-003-M" in validator.failures(wrong)[1]

"""PDF, XLSX, Parquet and CSV of a week: every format says the chargeback's numbers, to the cent."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest

from gpuwatch.billing.chargeback import chargeback
from gpuwatch.core.errors import UsageError
from gpuwatch.report.compose import document
from gpuwatch.report.document import Column, Document, Section, Table, Text, row
from gpuwatch.report.facts import Amount, Facts, Payer, added
from gpuwatch.report.files import ReportFile, unzipped, zipped
from gpuwatch.report.format_registry import format_names, report_format
from gpuwatch.report.headlines import MOST, headlines
from gpuwatch.report.pdf import fonts as pdf_fonts
from gpuwatch.report.pdf.pages import pdf
from gpuwatch.report.period_records import Budget
from gpuwatch.report.report_window import week_window
from gpuwatch.report.summary import Summary, summary
from gpuwatch.report.weekly import facts_of, report_files, weekly
from tests.report.test_weekly import LATER_US, WEEK, Fleet

TEAMS = ("ants", "bees")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Ants and bees, at a price that leaves fractions of cents."""
    from gpuwatch.rates.card import Rate

    where = tmp_path_factory.mktemp("formats")
    return Fleet(where, rates=(Rate("*", "on_demand", Decimal("2.3337"), 0),)).analyse()


@pytest.fixture(scope="module")
def files(fleet: Fleet) -> dict[str, bytes]:
    """Every file of the week by its name."""
    made = weekly(fleet.world.store, fleet.state, WEEK, None, LATER_US)
    return {file.name.partition("/")[2]: file.content for file in made}


@pytest.fixture(scope="module")
def charged(fleet: Fleet) -> dict[str, Decimal]:
    """What the chargeback says that each team pays."""
    found = chargeback(fleet.world.store, fleet.state, week_window(WEEK))
    return {str(c.group["team"]): c.cost for c in found.items if c.cost is not None}


def pages(content: bytes) -> list[str]:
    """The text of each page of a PDF, with plain spaces."""
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: the PDF is not read back")
    found: list[str] = [p.extract_text().replace("\u00a0", " ") for p in pypdf.PdfReader(io.BytesIO(content)).pages]
    return found


def sheets(content: bytes) -> Any:
    """A workbook as openpyxl reads it."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed: the workbook is not read back")
    return openpyxl.load_workbook(io.BytesIO(content))


def facts(fleet: Fleet, team: str | None = None) -> Facts:
    """The facts of the fleet or of a team."""
    return next(facts_of(fleet.world.store, fleet.state, WEEK, None if team is None else [team], LATER_US))


def test_what_is_no_format_is_refused(fleet: Fleet) -> None:
    """With the known ones."""
    with pytest.raises(UsageError, match="unknown format 'docx'; known formats: html, pdf"):
        weekly(fleet.world.store, fleet.state, WEEK, formats=["docx"])


def test_a_format_is_registered_once() -> None:
    """The message has both."""
    assert "pdf" in format_names()

    with pytest.raises(ValueError, match="report format 'pdf' is registered twice"):
        report_format("pdf", "pdf", "application/pdf")(lambda report: b"")


def test_listing_the_formats_loads_no_layout_library() -> None:
    """The CLI's help lists them."""
    code = (
        "import sys; from gpuwatch.report.format_registry import format_names; print(*format_names());"
        "print(sorted({'reportlab', 'xlsxwriter', 'duckdb'} & set(sys.modules)))"
    )
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    names, loaded = printed.splitlines()
    shipped = ["html", "pdf", "xlsx", "csv", "focus", "parquet"]

    assert shipped == [name for name in names.split() if name in shipped]
    assert "[]" == loaded


def test_the_set_is_whole(files: dict[str, bytes]) -> None:
    """The fleet and each team in each format."""
    kinds = {name.partition(".")[2] for name in files}

    assert {"html", "pdf", "xlsx", "csv", "parquet"} <= kinds
    assert {"fleet", "team-ants", "team-bees"} == {name.partition(".")[0] for name in files}
    assert 3 * len(kinds) == len(files)


@pytest.mark.parametrize("team", TEAMS)
def test_every_format_says_what_the_chargeback_says(
    team: str, files: dict[str, bytes], charged: dict[str, Decimal]
) -> None:
    """Tables by number, pages by the words."""
    cost, stem = charged[team], f"team-{team}"
    table = list(csv.DictReader(io.StringIO(files[f"{stem}.csv"].decode("utf-8-sig"))))
    frame = pq.read_table(io.BytesIO(files[f"{stem}.parquet"])).to_pylist()
    jobs = sheets(files[f"{stem}.xlsx"])["Jobs"]
    line = f"${cost}"

    assert cost == sum(Decimal(row["cost"]) for row in table if row["section"] == "charge")
    assert cost == sum(Decimal(row["cost"]) for row in table if row["section"] == "model")
    assert cost == sum(row["cost"] for row in frame if row["section"] == "charge")
    assert cost == sum(Decimal(str(cells[6])) for cells in jobs.iter_rows(min_row=2, values_only=True))
    assert cost == sum(
        Decimal(str(cells[2]))
        for cells in sheets(files[f"{stem}.xlsx"])["Buckets"].iter_rows(min_row=2, values_only=True)
    )
    assert line in "".join(pages(files[f"{stem}.pdf"]))
    assert line in files[f"{stem}.html"].decode().replace("\u00a0", " ")


def test_the_fleet_is_the_sum_of_its_teams(files: dict[str, bytes], charged: dict[str, Decimal]) -> None:
    """In the table of who pays of the PDF too."""
    total = sum(charged.values(), Decimal(0))
    teams = sheets(files["fleet.xlsx"])["Teams"]

    assert total == sum(Decimal(str(cells[3])) for cells in teams.iter_rows(min_row=2, values_only=True))
    assert f"${total}" in "".join(pages(files["fleet.pdf"]))


def test_a_team_s_files_have_no_word_of_another(files: dict[str, bytes]) -> None:
    """Not its name, people, jobs or nodes; in the formats that are not plain text either."""
    for name, others in (("team-ants", ("bee", "bob")), ("team-bees", ("ants", "ann", "node-ant", "ant-1"))):
        text = "".join(pages(files[f"{name}.pdf"]))
        text += str(pq.read_table(io.BytesIO(files[f"{name}.parquet"])).to_pylist())
        book = sheets(files[f"{name}.xlsx"])
        text += str([list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets])
        assert [] == [word for word in others if word in text]


def test_sheets_have_numbers_filters_and_a_frozen_head(files: dict[str, bytes]) -> None:
    """One sheet a level."""
    book = sheets(files["fleet.xlsx"])

    assert [
        "Summary",
        "Trend",
        "Actions",
        "Buckets",
        "Teams",
        "Users",
        "Jobs",
        "GPU models",
        "MIG slices",
        "Findings",
        "Idle while waiting",
        "Pivot",
        "Data quality",
        "Method",
    ] == book.sheetnames
    for sheet in book.worksheets[1:]:
        assert ("A2", True) == (sheet.freeze_panes, sheet.auto_filter.ref is not None)
    assert {"n"} == {row[6].data_type for row in book["Jobs"].iter_rows(min_row=2)}


def test_a_report_has_the_same_bytes_again(fleet: Fleet, files: dict[str, bytes]) -> None:
    """Of PDF, XLSX, Parquet and their ZIP."""
    again = report_files(fleet.world.store, fleet.state, WEEK, "ants", LATER_US, formats=("pdf", "xlsx", "parquet"))

    assert [files[file.name.partition("/")[2]] for file in again] == [file.content for file in again]
    assert zipped(again) == zipped(again)
    assert list(again) == unzipped(zipped(again))


def test_a_zip_may_hold_a_month() -> None:
    files = [ReportFile("2026-11/fleet.focus.csv", b"x")]

    assert files == unzipped(zipped(files))


def test_a_zip_with_another_name_is_refused() -> None:
    """No name leads out of the directory."""
    from gpuwatch.core.errors import UnreadableInput

    for name in ("../x.pdf", "2026-W45/../../x.pdf", "/etc/passwd"):
        with pytest.raises(UnreadableInput, match="no set of report files"):
            unzipped(zipped([ReportFile(name, b"x")]))
    with pytest.raises(UnreadableInput, match="no set of report files"):
        unzipped(b"not a zip")


@pytest.mark.parametrize(("paper", "size"), [("a4", (595, 842)), ("letter", (612, 792))])
def test_a_pdf_has_pages_with_numbers(fleet: Fleet, paper: str, size: tuple[int, int]) -> None:
    """Title and language for those who look it up, `How` on the last page, a head on each but the first."""
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed: the PDF is not read back")
    content = pdf(document(facts(fleet)), paper)
    reader = pypdf.PdfReader(io.BytesIO(content))
    texts = pages(content)

    assert {size} == {(round(float(p.mediabox.width)), round(float(p.mediabox.height))) for p in reader.pages}
    assert [True] * len(texts) == [f"{number} / {len(texts)}" in text for number, text in enumerate(texts, 1)]
    assert ("The fleet: GPU spend, week 2026-W45", "gpuwatch") == (reader.metadata.title, reader.metadata.author)
    assert "en" == reader.trailer["/Root"]["/Lang"]
    assert "How this was computed" in texts[-1]
    assert [True] * (len(texts) - 1) == [text.count("The fleet: GPU spend, week 2026-W45") == 1 for text in texts[1:]]
    assert "Where it went" in str(reader.outline)


def test_a_long_table_repeats_its_head() -> None:
    """On every page that it reaches."""
    rows = tuple(row([f"team-{n}", "$1"]) for n in range(150))
    table = Table((Column("Who"), Column("What it paid", number=True)), rows, "pay")
    texts = pages(pdf(Document("t", "w", (), (Section("Payers", (table,)),))))

    assert len(texts) > 2
    assert [True] * len(texts) == ["What it paid" in text for text in texts]


@pytest.mark.parametrize(
    "name",
    ["Größe Ärger", "Команда", "ομάδα", "研究チーム", "연구팀", "פריון", "فريق", "ทีม", "team 🚀", "\ud800", "<b>&"],
)
def test_a_name_in_any_script_is_drawn_or_reported_in_codes(name: str) -> None:
    """Never a crash, and never a box without a note."""
    found = pdf_fonts.fonts()
    text = found.markup(name)
    made = Document(name, "w", (Text(name),), (Section("How", (Text(name),), "how"),))

    assert pdf(made).startswith(b"%PDF")
    assert ("[U+" in text) == bool(found.lacking)
    assert bool(found.lacking or found.borrowed or found.turned) == bool(found.notes())


def test_without_a_font_of_the_machine_the_library_s_own_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare container: no sign of ours turns into a box."""
    monkeypatch.setattr(pdf_fonts, "FOLDERS", ())
    pdf_fonts._registered.cache_clear()
    try:
        found = pdf_fonts.fonts()
        signs = found.markup("▲ 12 % − ₹ … “x” · 研")

        assert set() == found.lacking
        assert "STSong-Light" in signs
        assert pdf(Document("▲", "w", (Text("研究 ▲ 12 %"),), ())).startswith(b"%PDF")
    finally:
        monkeypatch.undo()
        pdf_fonts._registered.cache_clear()
        pdf_fonts.fonts()


def test_a_budget_is_reported_and_its_lack_too(fleet: Fleet) -> None:
    """With what is expected, where somebody foretells it."""
    none = facts(fleet, "ants")
    budget = Budget("2026-11", Decimal(100), Decimal(7), "USD", Decimal(30), Decimal(20), Decimal(40))
    record = str(document(replace(none, budget=budget)).head).replace("\\xa0", " ")

    assert "No budget is set." in str(document(none).head)
    assert "Budget of $100 for 2026-11: $7.00 (7.0 %) spent, $30.00 expected by the end of the period" in record
    assert "between $20.00 and $40.00" in record
    assert ("Budget used, 2026-11", "7.0\u00a0%", "$7.00 of $100") in [
        (h.label, h.value, h.change) for h in headlines(replace(none, budget=budget))
    ]
    assert MOST == len(headlines(replace(none, budget=budget)))


def test_a_policy_is_bridged_line_by_line(fleet: Fleet) -> None:
    """Cost at its price + policy + passed on + corrections = charged; by default there is no such table."""
    from gpuwatch.report.cost_bridge import bridge, bridges

    default = facts(fleet)
    assert bridge(default) is None
    payers = [
        replace(p, amount=p.amount + Amount(Decimal(0), (("USD", Decimal("-2.00")),))) if p.name == "ants" else p
        for p in default.payers
    ]
    payers.append(Payer("bees", Amount(Decimal(0), (("USD", Decimal("2.00")),)), kind="shared"))
    changed = replace(default, payers=tuple(payers))
    found = bridges(changed)
    section = bridge(changed)

    assert section is not None
    assert added(p.amount for p in payers).cost_in("USD") == sum(b.charged for b in found)
    assert {"ants": Decimal("-2.00"), "bees": Decimal(0)} == {b.owner: b.policy for b in found if b.owner in TEAMS}
    assert {"ants": Decimal(0), "bees": Decimal("2.00")} == {b.owner: b.shared for b in found if b.owner in TEAMS}


def test_a_message_names_only_findings_that_waste_something(fleet: Fleet) -> None:
    """What claims nothing or has no price is no action: a card never shows zero."""
    week_facts = facts(fleet)
    (one,) = week_facts.findings
    others = [
        replace(one, key="free", title="Costs nothing", wasted_cost="0.00", wasted_gpu_seconds="0"),
        replace(one, key="none", title="Claims nothing", wasted_cost=None, wasted_gpu_seconds="0.000000"),
        replace(one, key="unpriced", title="Has no price", wasted_cost=None),
    ]

    made = summary(replace(week_facts, findings=(one, *others), covered=week_facts.window), f"{WEEK}/fleet")

    named = [what.partition(":")[0] for what, *_ in made.wastes]
    assert one.title in named
    assert not {"Costs nothing", "Claims nothing", "Has no price"} & set(named)
    assert not any(money.startswith(("$0\u00a0", "$0 ", "$0.00")) for _, _, money, _ in made.wastes)


def test_a_summary_survives_the_outbox(fleet: Fleet) -> None:
    """As JSON and back; what is none is refused."""
    import json

    made = summary(facts(fleet), f"{WEEK}/fleet")

    assert made == Summary.of(json.loads(json.dumps(made.as_dict())))
    with pytest.raises(ValueError, match="not a report summary"):
        Summary.of({"week": "x"})

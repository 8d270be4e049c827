"""Rate cards: what is refused, which rate prices a device, and when."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.core.clock import parse_rfc3339
from gpuwatch.core.errors import UnreadableInput, UsageError
from gpuwatch.core.model import Rejects
from gpuwatch.rates.card import OVERLAP, Rate, check_rates, missing_rate, parse_rates
from gpuwatch.rates.matching import match_models, price_spans, resolve
from gpuwatch.rates.models import unknown_profile
from gpuwatch.rates.repository import from_stored, stored

HEADER = "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to"
NOVEMBER = parse_rfc3339("2026-11-01")
DECEMBER = parse_rfc3339("2026-12-01")


def rate(model: str = "H100", usd: str = "2.5", pricing: str = "on_demand", **more: object) -> Rate:
    return Rate(model, pricing, Decimal(usd), **({"valid_from_us": NOVEMBER} | more))  # type: ignore[arg-type]


def read(*lines: str, header: str = HEADER) -> tuple[tuple[Rate, ...], Rejects]:
    rejects = Rejects()
    return parse_rates("\n".join([header, *lines]), "rates.csv", rejects), rejects


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        pytest.param("usd_per_gpu_hour is negative or not a number", "H100,spot,-1,2026-11-01,", id="negative"),
        pytest.param("usd_per_gpu_hour is not a plain decimal number such as 2.49", "H100,spot,NaN,2026-11-01,",
                     id="not a number"),
        pytest.param("usd_per_gpu_hour is not a plain decimal number such as 2.49", "H100,spot,1e3,2026-11-01,",
                     id="an exponent"),
        pytest.param("usd_per_gpu_hour is not a plain decimal number such as 2.49", 'H100,spot,"1,000",2026-11-01,',
                     id="a thousands separator"),
        pytest.param("usd_per_gpu_hour is not a plain decimal number such as 2.49", "H100,spot,,2026-11-01,",
                     id="no amount"),
        pytest.param("usd_per_gpu_hour has more than 26 digits or 12 decimal places",
                     "H100,spot,1.0000000000001,2026-11-01,", id="more places than the ledger keeps"),
        pytest.param("pricing is not one of on_demand, owned, reserved, spot", "H100,rented,1,2026-11-01,",
                     id="unknown pricing"),
        pytest.param("valid_to is not after valid_from", "H100,spot,1,2026-12-01,2026-11-01", id="reversed validity"),
        pytest.param("valid_to is not after valid_from", "H100,spot,1,2026-11-01,2026-11-01", id="empty validity"),
        pytest.param("valid_from is not an RFC 3339 time such as 2026-11-01T00:00:00Z", "H100,spot,1,,",
                     id="no beginning"),
        pytest.param("valid_to is not an RFC 3339 time such as 2026-11-01T00:00:00Z", "H100,spot,1,2026-11-01,soon",
                     id="an end in words"),
        pytest.param("gpu_model is empty: name a model, or * for every model", ",spot,1,2026-11-01,", id="no model"),
        pytest.param("gpu_model names no model: write one such as H100, or * for every model",
                     "NVIDIA,spot,1,2026-11-01,", id="only the vendor"),
        pytest.param("gpu_model has a character that cannot be printed", "H\x00100,spot,1,2026-11-01,", id="a NUL"),
        pytest.param("line has more cells than the header has columns", "H100,spot,1,2026-11-01,,USD",
                     id="too many cells"),
    ],
)  # fmt: skip
def test_a_bad_line_is_refused_and_the_good_ones_kept(reason: str, line: str) -> None:
    good = "A100,owned,1.2,2026-11-01,"
    rates, rejects = read(good, line, "B200,spot,3,2026-11-01,")

    assert {reason: 1} == rejects.counts
    assert ("rates.csv", 3) == rejects.first[reason][:2]
    assert ["A100", "B200"] == [r.gpu_model for r in rates]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            ["H100,spot,1,2026-11-01,2026-12-01", "H100,spot,2,2026-12-01,"], id="one ends as the next begins"
        ),
        pytest.param(["H100,spot,1,2026-11-01,", "H100,owned,2,2026-11-01,"], id="another pricing"),
        pytest.param(["H100,spot,1,2026-11-01,", "A100,spot,2,2026-11-01,"], id="another model"),
    ],
)
def test_rates_that_do_not_overlap_are_kept(lines: list[str]) -> None:
    rates, rejects = read(*lines)

    assert (2, {}) == (len(rates), rejects.counts)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param("H100,spot,2,2026-11-15,", id="within the first"),
        pytest.param("h100,spot,2,2026-10-01,2026-11-02", id="begins before the first"),
        pytest.param("NVIDIA H100,spot,2,2026-11-15,2026-11-16", id="another spelling of the model"),
    ],
)
def test_an_overlap_names_both_lines(second: str) -> None:
    rates, rejects = read("H100,spot,1,2026-11-01,2026-12-01", "A100,spot,1,2026-11-01,", second)

    assert ["H100", "A100"] == [r.gpu_model for r in rates]
    assert ("rates.csv", 4, f"line 4 overlaps line 2: {second}") == rejects.first[OVERLAP]
    with pytest.raises(UsageError, match=r"rates: H100 spot .* and .* are valid at once"):
        check_rates([rate(pricing="spot"), rate(pricing="spot", valid_from_us=DECEMBER)])


def test_optional_columns_scope_a_rate() -> None:
    header = f"{HEADER.upper()},pool,cluster,mig_profile,currency,notes"
    rates, rejects = read("H100,spot,2.50,2026-11-01T00:00:00+01:00,,fast,c1,1g.10gb.me,EUR,hi", header=header)

    expected = Rate(
        "H100", "spot", Decimal("2.5"), NOVEMBER - 3_600_000_000, None, "c1", "fast", "1g.10gb+me", "EUR"
    )  # fmt: skip
    assert (expected,) == rates
    assert ["column 'notes' is not known and was ignored"] == [reason.split(";")[0] for reason in rejects.counts]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="an empty file"),
        pytest.param(b"\xff\xfe\x00", id="not UTF-8"),
        pytest.param(b"gpu_model,pricing\nH100,spot\n", id="columns missing"),
        pytest.param(b"PK\x03\x04 zip", id="another kind of file"),
    ],
)
def test_a_file_without_the_columns_is_unreadable(text: bytes) -> None:
    with pytest.raises(UnreadableInput, match=r"rates\.csv: "):
        parse_rates(text, "rates.csv", Rejects())


@pytest.mark.parametrize(("mark", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_another_separator_is_reported(mark: str, name: str) -> None:
    with pytest.raises(UnreadableInput, match=f"separated by {name}; save it with commas"):
        parse_rates((HEADER + "\nH100,spot,1,2026-11-01,\n").replace(",", mark), "rates.csv", Rejects())


@pytest.mark.parametrize("model", ["H100 NVL", "NVIDIA H100 NVL", "H20", "GH200"])
def test_a_profile_that_only_other_boards_have_is_refused(model: str) -> None:
    assert (unknown_profile(model, "1g.10gb") or "").startswith("mig_profile is none of this model: it has 1g.12gb")
    assert unknown_profile(model, "1g.12gb") is None


def test_a_rate_of_a_profile_prices_the_slices_that_an_exporter_misprints() -> None:
    rates = [rate(usd="4"), rate(usd="3", mig_profile="1g.12gb")]
    found = {p: getattr(resolve(rates, "c1", None, "NVIDIA H100 NVL", p, NOVEMBER), "usd_per_gpu_hour", None)
             for p in ("1g.12gb", "1g.11gb", "1g.10gb", "2g.24gb")}  # fmt: skip

    assert {"1g.12gb": 3, "1g.11gb": 3, "1g.10gb": 4, "2g.24gb": 4} == found


def test_a_slice_with_media_extensions_has_its_own_rate_or_that_of_the_plain_one() -> None:
    plain, own = rate(usd="3", mig_profile="1g.10gb", pool="p1"), rate(usd="2", mig_profile="1g.10gb+me")
    found = [
        resolve(rates, "c1", "p1", "H100", "1g.10gb.me", NOVEMBER)
        for rates in ([rate()], [rate(), plain], [plain, own])
    ]

    assert [rate(), plain, own] == found
    assert resolve([own], "c1", "p1", "H100", "1g.10gb", NOVEMBER) is None


def test_a_byte_order_mark_blank_lines_and_short_lines_are_fine() -> None:
    rejects = Rejects()
    rates = parse_rates(f"\ufeff\r\n{HEADER}\r\n\r\nH100,spot,1,2026-11-01\r\n".encode(), "rates.csv", rejects)

    assert ([("H100", 4)], {}) == ([(r.gpu_model, r.line) for r in rates], rejects.counts)


def test_an_open_quote_costs_its_own_lines_only() -> None:
    rates, rejects = read("A100,spot,1,2026-11-01,", '"H100,spot,1,2026-11-01,')

    assert (["A100"], [("rates.csv", 3)]) == (
        [r.gpu_model for r in rates],
        [first[:2] for first in rejects.first.values()],
    )


@pytest.mark.parametrize(
    ("expected", "names", "model"),
    [
        pytest.param([], ["H100"], "NVIDIA GH200 480GB", id="a chip is a word, not a part of one"),
        pytest.param([], ["A100 80GB"], "NVIDIA A100-SXM4-40GB", id="another memory size"),
        pytest.param([], ["H100 PCIe"], "NVIDIA H100 80GB HBM3", id="another board"),
        pytest.param([], ["H100 80GB HBM3", "H100 NVL"], "h100", id="a gres type that two rates could mean"),
        pytest.param([], ["H100"], "", id="no model"),
        pytest.param(["H100 80GB HBM3"], ["H100 80GB HBM3"], "h100", id="a gres type that one rate could mean"),
        pytest.param(["h100 sxm5"], ["h100 sxm5"], "NVIDIA H100 80GB HBM3", id="HBM3 on H100 says SXM"),
        pytest.param(["A100-SXM-80GB"], ["A100-SXM-80GB"], "NVIDIA A100-SXM4-80GB", id="SXM is SXM4"),
        pytest.param(["H100-80GB"], ["H100-80GB"], "NVIDIA H100 PCIe", id="a driver name implies its memory"),
        pytest.param(["H200 SXM 141GB"], ["H200 SXM 141GB", "H200 NVL"], "NVIDIA H200", id="H200 alone is the SXM board"),
        pytest.param(["H100 80GB", "H100", "*"], ["*", "H100", "H100 80GB"], "NVIDIA H100 80GB HBM3",
                     id="more words are closer and anything is last"),
        pytest.param(["nvidia h100 80gb hbm3", "H100 80GB HBM3"], ["H100 80GB HBM3", "nvidia h100 80gb hbm3"],
                     "NVIDIA H100 80GB HBM3", id="exact spelling is closest"),
        pytest.param(["A100"], ["A100"], "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", id="the label of the single strategy"),
    ],
)  # fmt: skip
def test_model_names_match(expected: list[str], names: list[str], model: str) -> None:
    found = match_models([rate(name) for name in names], [model])

    assert {model: expected} == {key: [r.gpu_model for r in rates] for key, rates in found.items()}


@pytest.mark.parametrize(
    ("expected", "rates", "where"),
    [
        pytest.param(None, [], ("c1", "p1", None), id="no rates"),
        pytest.param(None, [rate(cluster="c2")], ("c1", "p1", None), id="another cluster"),
        pytest.param(None, [rate(pool="p1")], ("c1", None, None), id="a pool's rate and a device without pool"),
        pytest.param(None, [rate(mig_profile="1g.10gb")], ("c1", "p1", None), id="a slice's rate and a whole GPU"),
        pytest.param(None, [rate(valid_to_us=NOVEMBER + 1)], ("c1", "p1", None), id="validity is half-open"),
        pytest.param("2", [rate(usd="1", pricing="reserved"), rate(usd="2", cluster="c1")], ("c1", "p1", None),
                     id="a cluster's rate before a reservation"),
        pytest.param("2", [rate(usd="1", cluster="c1"), rate("*", "2", pool="p1")], ("c1", "p1", None),
                     id="a pool's rate before a cluster's"),
        pytest.param("2", [rate(usd="1", pool="p1", cluster="c1"), rate(usd="2", mig_profile="1g.10gb")],
                     ("c1", "p1", "1g.10gb"), id="a profile's rate before a pool's"),
        pytest.param("1", [rate(usd="1"), rate("*", "2", "reserved")], ("c1", "p1", None),
                     id="a model's rate before anything's"),
        pytest.param("4", [rate(usd="1"), rate(usd="2", pricing="spot", assume_spot=True), rate(usd="3", pricing="owned"),
                           rate(usd="4", pricing="reserved")], ("c1", "p1", None), id="reserved before all others"),
        pytest.param("3", [rate(usd="1"), rate(usd="2", pricing="spot", assume_spot=True), rate(usd="3", pricing="owned")],
                     ("c1", "p1", None), id="owned before spot"),
        pytest.param("2", [rate(usd="1"), rate(usd="2", pricing="spot", assume_spot=True)], ("c1", "p1", None),
                     id="spot before on demand"),
    ],
)  # fmt: skip
def test_the_most_specific_rate_wins(
    expected: str | None, rates: list[Rate], where: tuple[str, str | None, str | None]
) -> None:
    cluster, pool, profile = where
    for order in (rates, rates[::-1]):
        found = resolve(order, cluster, pool, "NVIDIA H100 80GB HBM3", profile, NOVEMBER + 1)

        assert expected == (None if found is None else str(found.usd_per_gpu_hour))


PLAIN, LISTED = rate(usd="1", pricing="spot"), rate(usd="2")


@pytest.mark.parametrize(
    ("expected", "spot_rate", "spot"),
    [
        pytest.param("2", PLAIN, False, id="capacity that is not known to be spot"),
        pytest.param("1", PLAIN, True, id="capacity that is known to be spot"),
        pytest.param("1", rate(usd="1", pricing="spot", pool="p1"), False, id="a spot rate that names the pool"),
        pytest.param("1", rate(usd="1", pricing="spot", assume_spot=True), False, id="a rate that assumes spot"),
    ],
)
def test_a_spot_rate_prices_spot_capacity_only(expected: str, spot_rate: Rate, spot: bool) -> None:
    found = resolve([spot_rate, LISTED], "c1", "p1", "H100", None, NOVEMBER, spot=spot)

    assert expected == (None if found is None else str(found.usd_per_gpu_hour))


def test_assume_spot_is_a_column_of_spot_rates() -> None:
    kept, rejects = read("H100,spot,1,2026-11-01,,yes", "A100,spot,1,2026-11-01,,", header=HEADER + ",assume_spot")
    assert ([True, False], {}) == ([one.assume_spot for one in kept], rejects.counts)
    for cells, why in (
        ("spot,1,2026-11-01,,perhaps", "assume_spot is not yes or no"),
        ("owned,1,2026-11-01,,yes", "assume_spot is for"),
    ):
        _, rejects = read(f"H100,{cells}", header=HEADER + ",assume_spot")
        assert [True] == [reason.startswith(why) for reason in rejects.counts]


def test_spans_are_cut_where_the_price_changes_only() -> None:
    cheap = rate(usd="1", pricing="spot", assume_spot=True, valid_from_us=NOVEMBER + 10, valid_to_us=NOVEMBER + 20)
    first = rate(usd="3", valid_to_us=DECEMBER)
    hidden = rate("*", "9", valid_from_us=NOVEMBER + 5)

    found = price_spans([cheap, first, hidden], "c1", None, "H100", None)

    expected = [
        (0, NOVEMBER, None),
        (NOVEMBER, NOVEMBER + 10, first),
        (NOVEMBER + 10, NOVEMBER + 20, cheap),
        (NOVEMBER + 20, DECEMBER, first),
        (DECEMBER, None, hidden),
    ]
    assert expected == list(found)


def test_without_rates_one_span_has_no_price() -> None:
    assert ((0, None, None),) == price_spans([], "c1", None, "H100", None)


moments = st.integers(min_value=-3, max_value=12)
some_rates = st.lists(
    st.builds(
        lambda start, length, pricing, model, cluster: Rate(
            model, pricing, Decimal(1), start, None if length == 0 else start + length, cluster
        ),
        moments,
        st.integers(min_value=0, max_value=9),
        st.sampled_from(["spot", "owned"]),
        st.sampled_from(["H100", "*"]),
        st.sampled_from([None, "c1"]),
    ),
    max_size=8,
)


@given(some_rates, st.integers(min_value=0, max_value=25))
def test_spans_say_what_resolve_says_at_every_instant(rates: list[Rate], at_us: int) -> None:
    spans = price_spans(rates, "c1", None, "H100", None)
    covering = [r for start, end, r in spans if start <= at_us and (end is None or at_us < end)]

    assert [resolve(rates, "c1", None, "H100", None, at_us)] == covering
    assert [0, *(end for _, end, _ in spans[:-1])] == [start for start, _, _ in spans]


def test_a_missing_rate_is_named_with_all_that_decides() -> None:
    expected = (
        "no rate for model 'H100', cluster 'c1', pool '-', profile '1g.10gb' at 2026-11-01T00:00:00Z: "
        "add a line to rates.csv that covers it"
    )
    assert expected == missing_rate("c1", None, "H100", "1g.10gb", NOVEMBER)


MORE = HEADER + ",currency,quantity,commitment_id,sku,list_price,contracted_price,mig_profile"


@pytest.mark.parametrize(
    ("reason", "cells"),
    [
        pytest.param("currency is empty", ",,,,,,", id="an empty cell of a currency column"),
        pytest.param("currency is not a three-letter", "usd,,,,,,", id="a currency in lower case"),
        pytest.param("quantity is for pricing reserved", "USD,8,,,,,", id="a quantity that nobody committed to"),
        pytest.param("commitment_id is for pricing reserved", "USD,,ri,,,,", id="a commitment that is none"),
        pytest.param("quantity is not a whole number above 0", "USD,0,,,,,", id="nothing committed to"),
        pytest.param("list_price is not a plain decimal", "USD,,,,x,,", id="a list price in words"),
        pytest.param("contracted_price is negative", "USD,,,,,-1,", id="a negative contracted price"),
        pytest.param("mig_profile is none of this model", "USD,,,,,,1g.5gb", id="a profile of another model"),
        pytest.param("mig_profile is not a MIG profile", "USD,,,,,,half", id="no profile at all"),
    ],
)
def test_a_bad_cell_of_what_few_rates_have(reason: str, cells: str) -> None:
    """A currency column has a currency in every line."""
    rates, rejects = read(f"H100,spot,1,2026-11-01,,{cells}", header=MORE)

    assert ((), [True]) == (rates, [text.startswith(reason) for text in rejects.counts])


def test_a_quantity_counts_whole_gpus() -> None:
    _, rejects = read("H100,reserved,1,2026-11-01,,USD,8,ri,,,,1g.10gb", header=MORE)

    assert ["quantity counts whole GPUs: leave mig_profile empty"] == list(rejects.counts)


def test_two_commitments_of_one_scope_may_run_at_once() -> None:
    rates, rejects = read(
        "H100,reserved,1,2026-11-01,,USD,8,ri-1,,,,", "H100,reserved,2,2026-11-05,,USD,8,ri-2,,,,", header=MORE
    )

    assert ({}, ["ri-1", "ri-2"]) == (rejects.counts, [rate.commitment for rate in rates])


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="nothing more"),
        pytest.param({"sku": "a", "list_price": Decimal("3.10")}, id="a list price"),
        pytest.param({"pricing": "reserved", "quantity": 3, "commitment_id": "ri"}, id="a commitment"),
        pytest.param({"pricing": "reserved", "quantity": 3, "cluster": "c", "pool": "p"}, id="one without a name"),
    ],
)
def test_a_rate_is_kept_as_it_was_given(more: dict[str, object]) -> None:
    one = rate(**more)  # type: ignore[arg-type]

    assert one == from_stored(stored(one))


def test_a_commitment_without_a_name_has_that_of_its_scope() -> None:
    assert "H100-c-p-reserved" == rate(pricing="reserved", quantity=3, cluster="c", pool="p").commitment
    assert None is rate(pricing="reserved").commitment

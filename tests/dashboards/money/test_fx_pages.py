"""Exchange rates and spot prices on the pages: a change keeps what it is not about, and is written under the version that was read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fastapi import FastAPI, Request

from gpuwatch.dashboards.client import ApiFailure, Caller, Client
from gpuwatch.dashboards.editing import list_actions
from gpuwatch.dashboards.pages.setup import fx, spot
from tests.dashboards.fake_names import HOSTILE, NOW, at
from tests.dashboards.laid_out import answering, asked, check_layout, links, shown, text

RATES = [
    {"from": "EUR", "to": "USD", "rate": "1.08", "valid_from": "2026-10-01T00:00:00Z"},
    {"from": "EUR", "to": "USD", "rate": "1.1", "valid_from": "2026-11-01T00:00:00Z"},
    {"from": "EUR", "to": "USD", "rate": "1.2", "valid_from": "2099-01-01T00:00:00Z"},
]
LIST = {"items": RATES, "currency": "USD", "max_age_days": 35, "version": 7, "next": None}
SETTINGS = {"currency": "USD", "max_age_days": 35}


def drawn(path: str = "/fx", scope: str = "admin", **more: Any) -> Any:
    """The page over these rates."""
    answers = {"fx": {**LIST, **more}, "me": {"scope": scope}, "fleet": {"at": at(NOW)}, "audit": {"items": []}}
    return shown(path, source=answering(answers))


def test_without_rates_and_currency_nothing_is_converted() -> None:
    words = text(drawn(items=[], currency=None))

    assert "Charges stay in the currency of their price" in words
    assert "No exchange rates yet" in words


def test_a_list_that_is_not_read_to_its_end_is_not_changed() -> None:
    """Writing what was read of it would remove the rest."""
    source = answering({"fx": {**LIST, "next": "more"}})

    with pytest.raises(ApiFailure) as refused:
        asyncio.run(fx.act(source, asked("/fx?edit=remove&row=0"), list_actions.SAVE, {list_actions.VERSION: "7"}))

    assert 413 == refused.value.status


def test_the_latest_rate_of_a_pair_that_has_begun_is_in_force() -> None:
    words = text(drawn())

    assert "Charges are converted into USD, with rates of at most 35 days." in words
    assert "1.2000 1 Jan 2099 Future" in words
    assert "1.1000 1 Nov 2026 In force" in words
    assert "1.0800 1 Oct 2026 Replaced" in words


def test_only_an_administrator_has_forms() -> None:
    assert [] == [href for href in links(drawn(scope="read")) if "edit=" in href]
    assert 5 == len([href for href in links(drawn()) if "edit=" in href])


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        (
            "/fx?edit=add",
            {"from": "GBP", "to": "USD", "rate": "1.3", "valid_from": "2026-12-01"},
            {
                "items": [*RATES, {"from": "GBP", "to": "USD", "rate": "1.3", "valid_from": "2026-12-01T00:00:00Z"}],
                **SETTINGS,
            },
        ),
        ("/fx?edit=remove&row=1", {}, {"items": [RATES[0], RATES[2]], **SETTINGS}),
        (
            "/fx?edit=set",
            {"currency": "eur", "max_age_days": "40"},
            {"items": RATES, "currency": "EUR", "max_age_days": 40},
        ),
        (
            "/fx?edit=set",
            {"currency": "", "max_age_days": "35"},
            {"items": RATES, "currency": None, "max_age_days": 35},
        ),
    ],
    ids=["a new rate", "one is removed", "another currency", "no currency"],
)
def test_a_change_keeps_the_rest(path: str, values: dict[str, str], expected: dict[str, Any]) -> None:
    assert expected == fx.changed(RATES, SETTINGS, asked(path), values)


def test_days_that_are_no_number_are_refused_at_their_field() -> None:
    with pytest.raises(ApiFailure) as refused:
        fx.changed(RATES, SETTINGS, asked("/fx?edit=set"), {"currency": "USD", "max_age_days": "soon"})

    assert "max_age_days" == refused.value.field


def test_a_change_is_written_under_the_version_of_its_form_and_the_past_needs_consent() -> None:
    app, sent = FastAPI(openapi_url=None), []

    @app.get("/api/v1/fx")
    def get() -> Any:
        return LIST

    @app.put("/api/v1/fx")
    async def put(request: Request) -> Any:
        sent.append((request.headers["if-match"], await request.json()))
        return {"changed": True, "version": 8, "rows": 2, "warnings": ["no rate before October"]}

    api = Client(app).of(Caller())
    values = {
        "from": "GBP",
        "to": "USD",
        "rate": "1.3",
        "valid_from": "2026-01-01",
        "version": "6",
        "now": at(NOW),
        "past": "no",
    }
    refused = asyncio.run(fx.act(api, asked("/fx?edit=add"), list_actions.SAVE, values))
    done = asyncio.run(fx.act(api, asked("/fx?edit=remove&row=0"), list_actions.SAVE, values))

    assert ({"valid_from"}, None) == (set(refused.wrong), refused.go)
    assert [('"6"', {"items": RATES[1:], **SETTINGS})] == sent
    assert "The exchange rates are changed. no rate before October" == done.message


PRICE = {
    "instance_type": "p5.48xlarge", "zone": "us-east-1a", "product": "Linux/UNIX", "at": "2026-11-01T00:00:00Z",
    "price": "16.00", "currency": "USD", "gpu_model": "H100", "gpus": 8, "cluster": None, "pool": None, "assume_spot": False,
}  # fmt: skip


def spots(*rows: dict[str, Any], path: str = "/spot", scope: str = "admin") -> Any:
    """The page over these prices."""
    answers = {
        "spot": {"items": list(rows), "version": 1, "next": None},
        "me": {"scope": scope},
        "audit": {"items": []},
    }
    return shown(path, source=answering(answers))


def test_a_series_shows_its_latest_price_and_its_range_per_gpu() -> None:
    later = PRICE | {"at": "2026-11-02T00:00:00Z", "price": "24.00"}
    words = text(spots(later, PRICE, PRICE | {"zone": "us-east-1b"}))

    assert "8 × H100 · us-east-1a · Linux/UNIX since 2 Nov 2026 $3.0000 $24.0000 $2.0000 $3.0000 2 2 Nov 2026" in words
    assert "8 × H100 · us-east-1b" in words
    assert "No spot prices yet" in text(spots())


def test_only_an_administrator_adds_prices() -> None:
    assert "Add spot prices" in text(spots(path="/spot?edit=add"))
    assert "Add spot prices" not in text(spots(path="/spot?edit=add", scope="read"))


@pytest.mark.parametrize("pasted", ["", "InstanceType,SpotPrice", "3", '"x"'])
def test_what_is_no_history_is_refused_at_its_field(pasted: str) -> None:
    with pytest.raises(ApiFailure) as refused:
        spot.document(pasted)

    assert "prices" == refused.value.field


def test_a_list_and_the_whole_output_are_the_same() -> None:
    rows = [{"InstanceType": "p5.48xlarge"}]

    assert (
        {"SpotPriceHistory": rows}
        == spot.document(json.dumps(rows))
        == spot.document(json.dumps({"SpotPriceHistory": rows}))
    )


def test_hostile_names_stay_text() -> None:
    check_layout(drawn(items=[RATES[0] | {"from": HOSTILE}]))
    check_layout(spots(PRICE | {"instance_type": HOSTILE, "zone": HOSTILE, "gpu_model": HOSTILE}))

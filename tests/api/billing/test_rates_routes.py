"""Exchange rates, owned hardware, spot prices and commitments over the API and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.cli import run
from tests.worlds.api import Api

pytestmark = pytest.mark.both_engines

CSV = {"Content-Type": "text/csv"}
FX = "from,to,rate,valid_from\nEUR,USD,1.25,2026-11-01\n"
RATES = "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to,currency,quantity,commitment_id\n"
RATES += "H100,reserved,2,2026-01-01,,EUR,2,ri-1\nH100,on_demand,4,2026-01-01,,USD,,\n"
OWNED = "name,gpu_model,gpus,capex,residual,years,kw,pue,price_per_kwh,ops_per_year,valid_from\n"
OWNED += "dgx,H100,8,400000,20%,4,10.2,1.3,0.10,60000,2026-01-01\n"
SPOT = {
    "SpotPriceHistory": [
        {"InstanceType": "p5.48xlarge", "SpotPrice": price, "Timestamp": f"2026-11-0{day}T00:00:00Z"}
        for day, price in ((3, "16"), (1, "24"))
    ]
}


def send(api: Api, path: str, content: str, method: str = "PUT", **more: Any) -> tuple[int, Any]:
    """(status, answer) of a file that is sent."""
    answer = api.request(method, f"/api/v1/{path}", content=content, headers=CSV, **more)
    return answer.status_code, answer.json()


def test_exchange_rates_convert_the_bill(books: Api) -> None:
    """Two of the three GPUs cost 2 EUR, which is 2.50 USD, the third 4 USD."""
    send(books, "rates", RATES)
    before = {row["currency"] for row in books.get("/api/v1/chargeback?window=2026-W45").json()["items"]}
    status, answer = send(books, "fx?currency=USD", FX)
    after = books.get("/api/v1/chargeback?window=2026-W45").json()

    assert ({"EUR", "USD"}, 200, 1) == (before, status, answer["rows"])
    assert {"USD"} == {row["currency"] for row in after["items"]}
    assert {
        "items": [{"from": "EUR", "to": "USD", "rate": "1.25", "valid_from": "2026-11-01T00:00:00Z"}],
        "currency": "USD",
        "max_age_days": 35,
        "version": 1,
        "next": None,
    } == books.get("/api/v1/fx").json()


def test_a_currency_that_prices_cannot_be_shown_in_is_warned_of(books: Api) -> None:
    send(books, "rates", RATES)
    listed = [send(books, f"fx?currency={code}", FX)[1]["warnings"] for code in ("USD", "GPB")]

    assert [[], 2] == [listed[0], len(listed[1])]
    assert listed[1][0].startswith(
        "prices in EUR are not converted to GPB but stay in EUR: no exchange rate EUR to GPB at "
    )
    assert "add a line USD,GPB,RATE," in listed[1][1]


def test_a_currency_that_nothing_leads_to_is_warned_of(api: Api) -> None:
    listed = [send(api, f"fx?currency={code}", FX)[1]["warnings"] for code in ("USD", "GPB")]

    assert [[], ["no price is in GPB and no exchange rate leads to it: is it the right currency?"]] == listed


def test_a_price_without_an_exchange_rate_stays_and_is_named(books: Api) -> None:
    """Doctor has the line that is missing."""
    send(books, "rates", RATES)
    send(books, "fx?currency=USD", FX.replace("EUR,USD", "GBP,USD"))
    check = next(c for c in books.get("/api/v1/quality").json()["checks"] if c["id"] == "currencies")

    assert "warn" == check["status"]
    assert "none of this pair is given" in check["what"]
    assert "EUR,USD,RATE,2026-11-02T00:00:00Z" in check["fix"]


def test_commitments_used_and_unused(books: Api) -> None:
    """Two of three GPUs are covered, for the six hours that the books know."""
    send(books, "rates", RATES)
    answer = books.get("/api/v1/commitments?window=2026-W45").json()
    (one,) = answer["items"]

    assert {"start": "2026-11-02T00:00:00Z", "end": "2026-11-02T06:00:00Z"} == answer["counted"]
    assert ("ri-1", 2, "43200.000000", "24.00", "EUR") == tuple(
        one[name] for name in ("commitment_id", "quantity", "committed_gpu_seconds", "committed_cost", "currency")
    )
    assert 403 == books.get("/api/v1/commitments", token=books.token("read", "red")).status_code


def test_owned_hardware_shows_its_formula(api: Api) -> None:
    """And is a rate in force."""
    status, answer = send(api, "owned", OWNED)
    (one,) = api.get("/api/v1/owned").json()["items"]

    assert (200, {"changed": True, "version": 1, "rows": 1, "warnings": []}) == (status, answer)
    assert ("2.163466894977", True) == (one["usd_per_gpu_hour"], "10.2" in one["formula"])
    assert ["owned"] == [row["card"] for row in api.get("/api/v1/rates/in-force").json()["items"]]
    sent = {name: value for name, value in one.items() if name not in ("usd_per_gpu_hour", "formula")}
    again = api.request("PUT", "/api/v1/owned", json={"items": [sent]}).json()
    assert False is again["changed"]


def test_spot_prices_are_added_once(api: Api) -> None:
    """And a type without GPUs is named."""
    unknown = api.request("POST", "/api/v1/spot", json=SPOT)
    answers = [api.request("POST", "/api/v1/spot?instance=p5.48xlarge=H100:8", json=SPOT).json() for _ in range(2)]

    assert (400, True) == (unknown.status_code, "--instance p5.48xlarge" in unknown.json()["error"]["message"])
    assert [True, False] == [answer["changed"] for answer in answers]
    assert ["24", "16"] == [row["price"] for row in api.get("/api/v1/spot").json()["items"]]
    assert [("3", "2026-11-03T00:00:00Z"), ("2", None)] == [
        (row["usd_per_gpu_hour"], row["valid_to"]) for row in api.get("/api/v1/rates/in-force").json()["items"]
    ]


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        pytest.param(
            "fx", FX + "EUR,USD,-1,2026-12-01\n", "line 3: rate is not above 0", id="a negative exchange rate"
        ),
        pytest.param("fx?currency=euro", FX, "currency", id="no currency"),
        pytest.param("owned", OWNED.replace("400000", "-1"), "line 2: capex is negative", id="negative capex"),
        pytest.param("owned", OWNED.replace("10.2", "measured"), "not measured yet", id="nobody measures it"),
        pytest.param("owned?measure=week", OWNED.replace("10.2", "measured"), "gives energy or power", id="no energy"),
        pytest.param("owned?measure=soon", OWNED, "window", id="no window"),
    ],
)
def test_a_bad_file_changes_nothing(api: Api, path: str, content: str, words: str) -> None:
    """All or nothing."""
    status, answer = send(api, path, content)

    assert (400, True) == (status, words in str(answer["error"]))
    assert 0 == api.service.state.card_version(path.split("?")[0])


@pytest.mark.parametrize("path", ["fx", "owned"])
def test_only_an_admin_sets_prices(api: Api, path: str) -> None:
    """A reader may look."""
    api.token("admin")
    text = api.token("read")

    assert 403 == send(api, path, "", token=text)[0]
    assert 200 == api.get(f"/api/v1/{path}", token=text).status_code


def test_the_table_of_rates_says_for_which_gpus_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a rate does: else the columns would be empty."""
    data, file = ["--data", str(tmp_path / "data")], tmp_path / "rates.csv"
    head = "gpu_model,pricing,usd_per_gpu_hour,valid_from,valid_to,pool\n"
    shown = []
    for pool in ("", "batch"):
        file.write_text(f"{head}H100,on_demand,4,2026-01-01,,{pool}\n")
        run(["rates", "set", str(file), *data])
        capsys.readouterr()
        run(["rates", "show", "--format", "table", *data])
        text = capsys.readouterr().out
        shown.append(("pool" in text, "batch" in text))

    assert [(False, False), (True, True)] == shown


def test_the_command_line_does_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Set, show, refuse whole."""
    data = ["--data", str(tmp_path / "data")]
    names = {"rates.csv": RATES, "fx.csv": FX, "owned.csv": OWNED, "spot.json": json.dumps(SPOT), "bad.csv": RATES * 2}
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    file = {name: str(tmp_path / name) for name in names}

    def command(*words: str) -> tuple[int, Any]:
        code = run(["rates", *words, *data])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else err.strip()

    assert (0, "rates: 2 rows, in force") == command("set", file["rates.csv"])
    assert (0, "rates: 2 rows, nothing changed") == command("set", file["rates.csv"])
    code, entry = command("set", file["bad.csv"])
    assert (2, True) == (code, "nothing was changed: line 4" in entry)
    assert (0, "exchange rates: 1 rows, in force") == command("fx", file["fx.csv"], "--currency", "USD")
    assert (0, "exchange rates: 1 rows, in force") == command("fx", "--max-age-days", "3660")
    assert (2, True) == (refused := command("fx", "--currency", "usd"))[:1] + ("three-letter" in refused[1],)
    warned = command("fx", "--currency", "GPB")[1].splitlines()
    assert (3, True) == (len(warned), warned[0].startswith("exchange rates: prices in EUR are not converted to GPB"))
    assert (0, "exchange rates: 1 rows, in force") == command("fx", "--currency", "USD", "--max-age-days", "3660")
    found = command("fx")[1]
    assert ("USD", 3660) == (found["currency"], found["max_age_days"])
    assert (0, "owned hardware: 1 rows, in force") == command("owned", file["owned.csv"])
    assert (0, "spot prices: 2 rows, in force") == command(
        "spot", file["spot.json"], "--instance", "p5.48xlarge=H100:8"
    )
    assert ["rates", "rates", "owned", "spot", "spot"] == [
        row["card"] for row in command("show", "--format", "json")[1]["items"]
    ]
    assert [] == command("commitments", "--window", "2026-11")[1]["items"]
    assert 2 == command("set", str(tmp_path / "none.csv"))[0]

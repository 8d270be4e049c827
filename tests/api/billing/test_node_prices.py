"""Prices of nodes over the API: sent without a GPU's price, shown with it, and taken back as they are shown."""

from __future__ import annotations

from tests.worlds.api import Api

RATE = {"gpu_model": "H100", "pricing": "on_demand", "valid_from": "2026-01-01T00:00:00Z"}
NODE = {"node_price": "10", "node_gpus": "8", "node_vcpus": "64", "node_memory_gib": "488", "node_split": "aws-scad"}


def test_a_price_by_node_is_refused_whole_where_it_lacks_something(api: Api) -> None:
    before = api.get("/api/v1/rates").json()
    for wrong, entry in ((NODE | {"node_split": None}, "node_split is empty"), ({}, "usd_per_gpu_hour is not")):
        answer = api.request("PUT", "/api/v1/rates", json={"items": [RATE | wrong]})

        assert 400 == answer.status_code
        assert f"items.0: {entry}" in answer.json()["error"]["message"]
    assert before == api.get("/api/v1/rates").json()


def test_a_price_by_node_comes_back_with_what_it_gives(api: Api) -> None:
    assert 200 == api.request("PUT", "/api/v1/rates", json={"items": [RATE | NODE]}).status_code

    (item,) = api.get("/api/v1/rates").json()["items"]
    assert NODE | {"usd_per_gpu_hour": "0.504484304933"} == {n: item[n] for n in (*NODE, "usd_per_gpu_hour")}
    again = api.request("PUT", "/api/v1/rates", json={"items": [item]})
    assert (200, False) == (again.status_code, again.json()["changed"])

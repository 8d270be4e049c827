"""The What if page: the answer in a sentence, a table beside each chart, unknown as unknown, hostile names as text."""

from __future__ import annotations

from typing import Any

from gpuwatch.dashboards.client import Row
from tests.dashboards.laid_out import answering, check_layout, links, shown, text

NASTY = '<img src=x onerror=alert(1)>"'


def limit(minutes: int, hours: str, jobs: int = 0, wrong: int = 0, **more: Any) -> Row:
    return {
        "limit_minutes": minutes,
        "returned_gpu_hours": hours,
        "returned_cost": f"{float(hours) * 2:.2f}",
        "jobs": jobs,
        "wrong_jobs": wrong,
        "devices": jobs,
        "wrong_devices": wrong,
        "soon_devices": 0,
        "sooner": {"requests": 3, "devices": 4, "waiting_hours": "6.0", "median_s": 600, "longest_s": 900},
        **more,
    }


def answer(**more: Any) -> Row:
    return {
        "window": {"start": "2026-10-01T00:00:00Z", "end": "2026-10-31T00:00:00Z"},
        "currency": "USD",
        "idle": limit(0, "120.0", 12, 2),
        "items": [limit(5, "100.0", 12, 2), limit(15, "80.0", 10, 1), limit(240, "10.0", 2)],
        "teams": [{"team": NASTY, **limit(15, "80.0", 10, 1)}],
        "requests": 7,
        "left_alone_gpu_hours": "5.0",
        "unsure_gpu_hours": "0.0",
        "not_replayed": [],
        **more,
    }


def page(path: str = "/what-if", **more: Any) -> Any:
    return shown(path, source=answering({"what-if/idle-limits": answer(**more)}))


def test_the_answer_is_one_sentence() -> None:
    layout = page()

    check_layout(layout)
    words = text(layout)
    assert (
        "A limit of 15 min would have returned 80 GPU-h ($160). 10 jobs would have lost a GPU; 1 used it again later."
        in words
    )
    assert "3 of 7 waiting requests would have started sooner." in words
    assert "5 GPU-h of idle time were left alone." in words
    assert NASTY in words


def test_the_jobs_that_are_hit_are_named_with_their_users() -> None:
    hit = {
        "cluster": "c1",
        "job": "4711",
        "name": NASTY,
        "team": "nlp",
        "user": "ada",
        "devices": 3,
        "wrong_devices": 2,
    }
    layout = page(jobs=[hit | {"returned_gpu_hours": "7.5", "returned_cost": "15.00"}])

    check_layout(layout)
    assert "Jobs that a limit of 15 min hits" in text(layout)
    assert f"{NASTY} 4711 nlp ada 3 2 7.5 15.00" in text(layout)
    assert "/ui/jobs/4711?in=c1" in links(layout)
    assert "Jobs that a limit" not in text(page(jobs=None)), "an API that is older"


def test_another_limit_is_a_link_and_an_address() -> None:
    assert any("limit=240" in href for href in links(page()))
    assert "A limit of 4 h would have returned 10 GPU-h ($20.00). 2 jobs" in text(page("/what-if?limit=240"))
    assert "A limit of 15 min" in text(page("/what-if?limit=7"))


def test_a_token_bound_to_teams_sees_no_queue() -> None:
    items = [limit(15, "80.0", 10, 1, sooner=None)]
    words = text(page(items=items, teams=[], requests=None))

    assert "waiting request" not in words.split("How this is computed")[0]
    assert "Start sooner – –" not in words


def test_no_price_is_unknown_and_not_zero() -> None:
    items = [limit(15, "80.0", 10, 1, returned_cost=None)]
    words = text(page(items=items, teams=[], currency=None))

    assert "would have returned 80 GPU-h. 10 jobs" in words
    assert "$0" not in words


def test_where_nothing_idles_no_limit_is_shown() -> None:
    layout = page(idle=limit(0, "0.0"), items=[limit(15, "0.0")])

    check_layout(layout)
    assert "No held GPU idled for five minutes or longer" in text(layout)


def quota(gpus: str, delayed: int = 0, never: int = 0, **more: Any) -> Row:
    return {
        "gpus": gpus,
        "held_gpu_hours": "50.0",
        "unused_gpu_hours": "22.0",
        "delayed_runs": delayed,
        "delayed_jobs": delayed,
        "waiting_hours": f"{delayed}.0",
        "median_s": 3600 if delayed else None,
        "longest_s": 7200 if delayed else None,
        "too_large_runs": never,
        "not_started_runs": 0,
        "users": [{"name": NASTY, "runs": delayed, "waiting_hours": f"{delayed}.0"}],
        "queues": [],
        "sooner": {"requests": 1, "devices": 1, "waiting_hours": "1.0", "median_s": 3600, "longest_s": 3600},
        **more,
    }


def quotas(**more: Any) -> Row:
    return {
        "window": {"start": "2026-10-01T00:00:00Z", "end": "2026-10-31T00:00:00Z"},
        "team": NASTY,
        "peak_gpus": "8.000000",
        "runs": 9,
        "held_gpu_hours": "50.0",
        "items": [quota("1.000000", 3, 4), quota("4.000000", 2), quota("8.000000")],
        "waited_for_quota": {"requests": 5, "waiting_hours": "6.0"},
        **more,
    }


def quota_page(path: str = "/what-if/quotas", charges: list[Row] | None = None, **more: Any) -> Any:
    teams = [{"team": "__platform__"}, {"team": NASTY}, {"team": "b"}] if charges is None else charges
    return shown(path, source=answering({"chargeback": {"items": teams}, "what-if/quotas": quotas(**more)}))


def test_a_quota_says_whose_runs_wait() -> None:
    layout = quota_page()

    check_layout(layout)
    words = text(layout)
    assert (
        "held up to 8 GPUs at once. With a quota of 4, 2 of its 9 runs would have waited, 60 min at the median."
        in words
    )
    assert "5 requests of the team waited 6 h in all for a quota or limit as it was." in words
    assert "3 of its 9 runs would have waited, 60 min at the median; 4 ask for more than the quota." in text(
        quota_page("/what-if/quotas?gpus=1")
    )
    assert "none of its 9 runs would have waited." in text(quota_page("/what-if/quotas?gpus=8"))


def test_without_teams_there_is_nothing_to_try() -> None:
    layout = quota_page(charges=[])

    check_layout(layout)
    assert "No runs to replay" in text(layout)


def tried(**more: Any) -> Row:
    outcome = {"changed_gpus": 2, "served_ratio": 0.9, "fit": 1, "move": 1, "misfits": []}
    holder = {"job": "j1", "name": NASTY, "team": "a", "user": None, "gpu": "GPU-1", "profile": "1g.10gb", "then": None}
    change = {"gpu": "GPU-1", "layout": ["1g.10gb"] * 7, "better": ["3g.40gb", "4g.40gb"], "holders": [holder]}
    return {
        "cluster": "c1",
        "pool": "mig",
        "gpu_model": NASTY,
        "since": "2026-10-01T00:00:00Z",
        "until": "2026-10-08T00:00:00Z",
        "gpus": 3,
        "instances": {"1g.10gb": 21},
        "held": 2,
        "not_counted": 0,
        "served_ratio": 0.5,
        "layouts": [{"layout": ["7g.80gb"], **outcome, "served_ratio": 0.0}, {"layout": ["1g.10gb"] * 7, **outcome}],
        "plan": {**outcome, "changes": [change]},
        **more,
    }


def mig(*items: Row) -> Any:
    found = {"at": "2026-10-08T00:00:00Z", "items": list(items), "unknown": {}}
    return shown("/what-if/mig", source=answering({"what-if/mig": found}))


def test_a_better_layout_names_who_has_to_move() -> None:
    layout = mig(tried())

    check_layout(layout)
    words = text(layout)
    assert (
        "would serve 90 % of last week's demand that only this pool can serve, instead of 50 %. 1 job would have to stop first."
        in words
    )
    assert "not part of it" not in words
    assert "7 × 1g.10gb 4g.40gb, 3g.40gb" in words
    assert "does not fit" in words


def test_no_demand_and_no_gain_have_their_words() -> None:
    plan = {**tried()["plan"], "changes": []}

    assert "no layout is better than another" in text(mig(tried(served_ratio=None, plan=plan)))
    assert (
        "3 GPUs serve 50 % of the demand of the last week that only this pool can serve. No other layout serves more of it."
        in text(mig(tried(plan=plan)))
    )
    assert "1 request that may use several pools or models is not part of it." in text(
        mig(tried(plan=plan, not_counted=1))
    )
    assert "No partitioned GPUs" in text(mig())

"""What a request that waits for quota waits for: what must have no words, then what has."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.capacity.quota_wait import words

Row = dict[str, Any]


def request(**more: Any) -> Row:
    return {
        "cluster": "c1",
        "scheduler": "kueue",
        "namespace": "red",
        "queue": "local",
        "gpus": 3,
        "profile": None,
    } | more


def queue(name: str, quota: int | None, used: int | None, borrowed: int = 0, **more: Any) -> Row:
    def counts(value: int | None) -> dict[str, int] | None:
        return None if value is None else {"": value}

    row = {
        "cluster": "c1",
        "scheduler": "kueue",
        "kind": "cluster_queue",
        "namespace": None,
        "name": name,
        "parent": "cohort",
    }
    return row | {"quota": counts(quota), "used": counts(used), "borrowed": counts(borrowed)} | more


LOCAL = queue("local", None, None, kind="local_queue", namespace="red", parent="own")


@pytest.mark.parametrize(
    ("row", "queues"),
    [
        pytest.param(request(), [LOCAL, queue("own", 4, 4), queue("big", 4, 7, 3)], id="its own quota is in use"),
        pytest.param(
            request(), [LOCAL, queue("own", 4, 2), queue("big", 4, 7, 3)], id="its own quota is too small for it"
        ),
        pytest.param(request(), [LOCAL, queue("own", 4, 1), queue("big", 4, 4)], id="nobody borrows"),
        pytest.param(
            request(), [LOCAL, queue("own", 4, 1), queue("big", 4, 7, 3, parent="x")], id="another cohort borrows"
        ),
        pytest.param(
            request(), [LOCAL, queue("own", 4, 1), queue("big", 4, 7, 3, cluster="c2")], id="in another cluster"
        ),
        pytest.param(
            request(), [LOCAL, queue("own", 4, 1, parent=None), queue("big", 4, 7, 3, parent=None)], id="no cohort"
        ),
        pytest.param(request(), [LOCAL, queue("own", None, 1), queue("big", 4, 7, 3)], id="a quota that is not known"),
        pytest.param(request(), [LOCAL, queue("own", 4, None), queue("big", 4, 7, 3)], id="a use that is not known"),
        pytest.param(
            request(gpus=None), [LOCAL, queue("own", 4, 1), queue("big", 4, 7, 3)], id="an unknown number of GPUs"
        ),
        pytest.param(request(profile="1g.10gb"), [LOCAL, queue("own", 4, 1), queue("big", 4, 7, 3)], id="slices"),
        pytest.param(
            request(namespace="blue"), [LOCAL, queue("own", 4, 1), queue("big", 4, 7, 3)], id="a queue of no record"
        ),
    ],
)
def test_has_no_words_for(row: Row, queues: list[Row]) -> None:
    assert words(row, queues) is None


def test_names_who_borrows_what_its_queue_would_need() -> None:
    one = words(request(), [LOCAL, queue("own", 4, 1), queue("big", 4, 7, 3)])
    two = words(request(gpus=1), [LOCAL, queue("own", 4, 0), queue("big", 4, 6, 2), queue("also", 4, 6, 2)])

    assert (
        "Its queue own uses 1 of its own 4 GPUs, and big borrows 3 GPUs from its cohort: it can start when 3 of them are given back."
        == one
    )
    assert (
        "Its queue own uses 0 of its own 4 GPUs, and also and big borrow 4 GPUs from its cohort: it can start when 1 of them is given "
        "back." == two
    )

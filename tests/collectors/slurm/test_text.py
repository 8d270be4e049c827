"""How Slurm writes host lists, GPUs, durations, times and comments."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.collectors.slurm.shares import gres_held, tres_held
from gpuwatch.collectors.slurm.text import (
    Gpus,
    comment_labels,
    duration_us,
    expand_hostlist,
    gpu_type_of,
    gres_gpus,
    possible_times,
    spread,
    task_ids,
    tres_gpus,
)
from gpuwatch.core.clock import parse_rfc3339

SHARED = Path(os.environ.get("GPUWATCH_SHARED", Path(__file__).parents[4] / "shared"))
EXAMPLES = SHARED / "wire/slurm/alloctres_examples.txt"
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        pytest.param("", (), id="nothing is no host"),
        pytest.param("bad01", ("bad01",), id="a name is itself"),
        pytest.param("gpu[01-03,07],bad01", ("gpu01", "gpu02", "gpu03", "gpu07", "bad01"), id="zeros are kept"),
        pytest.param("n[9-11]", ("n9", "n10", "n11"), id="numbers without zeros grow"),
        pytest.param("r[1-2]n[1-2]x", ("r1n1x", "r1n2x", "r2n1x", "r2n2x"), id="two brackets multiply"),
        pytest.param("n[0-4:2]", ("n0", "n2", "n4"), id="a step counts"),
        pytest.param("[1101-1102]", ("1101", "1102"), id="a name may be only a number"),
    ],
)
def test_a_host_list_expands(text: str, hosts: tuple[str, ...]) -> None:
    assert hosts == expand_hostlist(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("gpu[01-03", id="a bracket left open"),
        pytest.param("gpu01]", id="a bracket never opened"),
        pytest.param("gpu[a-b]", id="letters in a range"),
        pytest.param("gpu[3-1]", id="a range that runs backwards"),
        pytest.param("gpu[]", id="an empty bracket"),
        pytest.param("gpu[0-100000]", id="one host too many"),
        pytest.param("a[0-999]b[0-999]", id="brackets that multiply to too many"),
        pytest.param("a[0-99999999999999999999]", id="a number beyond any"),
    ],
)
def test_a_bad_host_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host list"):
        expand_hostlist(text)


def test_a_hundred_thousand_hosts_are_the_bound() -> None:
    assert 100_000 == len(expand_hostlist("n[0-99999]"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[a-z]{1,6}-?", fullmatch=True),
            st.lists(st.tuples(st.integers(0, 999), st.integers(0, 5)), min_size=1, max_size=3),
            st.integers(1, 4),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_generated_host_list_comes_back(groups: list[tuple[str, list[tuple[int, int]], int]]) -> None:
    written, hosts = [], []
    for prefix, spans, width in groups:
        ranges = [
            f"{first:0{width}d}-{first + more:0{width}d}" if more else f"{first:0{width}d}" for first, more in spans
        ]
        written.append(f"{prefix}[{','.join(ranges)}]")
        hosts += [f"{prefix}{n:0{width}d}" for first, more in spans for n in range(first, first + more + 1)]

    assert tuple(hosts) == expand_hostlist(",".join(written))


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("billing=8,cpu=8,mem=64G,node=1", [], id="no GPU"),
        pytest.param("gres/gpumem=80G,gres/gpuutil=50,gres/shard=4,gres/gpu=0", [], id="other gres, and none"),
        pytest.param("gres/gpu=4,gres/gpu:h100=4", [("h100", None, 4)], id="the total and its type are the same GPUs"),
        pytest.param("gres/gpu:h100=4,gres/gpu=4", [("h100", None, 4)], id="in the other order too"),
        pytest.param("gres/gpu:h100=4", [("h100", None, 4)], id="only typed"),
        pytest.param("gres/gpu=4", [(None, None, 4)], id="only untyped"),
        pytest.param(
            "gres/gpu=5,gres/gpu:h100=4", [("h100", None, 4), (None, None, 1)], id="what the types leave is untyped"
        ),
        pytest.param("gres/gpu=3,gres/gpu:h100=4", [("h100", None, 4)], id="types that exceed the total are believed"),
        pytest.param("gres/gpu=1,gres/gpu:1g.10gb=1", [(None, "1g.10gb", 1)], id="a slice is one of the total"),
        pytest.param(
            "gres/gpu:a100_80gb_1g.10gb+me=1",
            [("a100_80gb", "1g.10gb+me", 1)],
            id="a type with memory, media extensions",
        ),
    ],
)
def test_tres_says_which_gpus(text: str, gpus: list[tuple[str | None, str | None, int]]) -> None:
    assert gpus == [found[:3] for found in tres_gpus(text)]


@pytest.mark.parametrize("count", ["x", "", "-1", "4.5", "99999999999"])
def test_a_count_that_is_none_is_refused(count: str) -> None:
    with pytest.raises(ValueError, match="GPU count"):
        tres_gpus(f"gres/gpu={count}")


@settings(max_examples=50, deadline=None)
@given(
    st.permutations(["billing=8", "cpu=8", "gres/gpu=7", "gres/gpu:a100=2", "gres/gpu:a100_1g.5gb=2", "gres/nvme=9"])
)
def test_the_order_of_tres_does_not_matter(items: list[str]) -> None:
    expected = (Gpus("a100", None, 2), Gpus("a100", "1g.5gb", 2), Gpus(None, None, 3))

    assert expected == tres_gpus(",".join(items))


def test_every_recorded_alloctres_gives_its_gpus() -> None:
    if not EXAMPLES.exists():
        pytest.skip(f"{EXAMPLES} is not there: set GPUWATCH_SHARED")
    expected: list[list[tuple[str | None, str | None, int]]] = [
        [("a100", None, 4)],
        [("a100", "1g.5gb", 1)],
        [],
        [("a100", None, 4)],
        [("rtx6000", None, 2)],
        [("a100", "3g.20gb", 3)],
        [(None, None, 3)],
        [(None, "3g.40gb", 2), (None, "4g.40gb", 1)],
        [(None, None, 3)],
        [("a100", None, 2)],
        [("a100", None, 4)],
        [("a100", None, 2), ("a100", "1g.5gb", 2)],
        [(None, None, 3)],
        [("a100", None, 4)],
    ]

    assert expected == [[g[:3] for g in tres_gpus(line)] for line in EXAMPLES.read_text().splitlines()]


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        pytest.param("", [], id="empty after the end of a job"),
        pytest.param("(null)", [], id="the word for nothing"),
        pytest.param("gpu:a100:0(IDX:N/A),shard:0,mps:100", [], id="zeros and other gres"),
        pytest.param("gpu:h100:4(IDX:0-3)", [("h100", None, 4, "0,1,2,3")], id="a span of indexes"),
        pytest.param("gpu:h100:3(IDX:0-1,7)", [("h100", None, 3, "0,1,7")], id="a comma inside the brackets"),
        pytest.param(
            "gpu:a100:1(IDX:0),gpu:1g.10gb:1(IDX:2)",
            [("a100", None, 1, "0"), (None, "1g.10gb", 1, "2")],
            id="two types in one line",
        ),
        pytest.param("gpu:4(IDX:0-3)", [(None, None, 4, "0,1,2,3")], id="no type"),
        pytest.param("gpu:h100:8(S:0-1)", [("h100", None, 8, None)], id="sockets are no indexes"),
        pytest.param("gpu:h100:4(IDX:0-2)", [("h100", None, 4, None)], id="indexes that miss one are not believed"),
        pytest.param("gres/gpu:h100:2", [("h100", None, 2, None)], id="prefix with a slash"),
        pytest.param("gpu", [(None, None, 1, None)], id="without a count it is one"),
    ],
)
def test_gres_says_which_gpus_and_where(text: str, gpus: list[tuple[str | None, str | None, int, str | None]]) -> None:
    assert gpus == [found[:4] for found in gres_gpus(text)]


@pytest.mark.parametrize(
    ("text", "held"),
    [
        pytest.param("gres/gpu=1,gres/shard=4", [(None, None, 1, None, None)], id="GPUs are held whole"),
        pytest.param("cpu=1,gres/shard=0,gres/mps=0", [], id="zeros"),
        pytest.param("gres/gpumem=80G,gres/nic=2", [], id="other gres"),
        pytest.param("gres/shard=4,gres/shard:h100=4", [("h100", None, 1, None, 4)], id="one type, counted twice"),
        pytest.param("cpu=1,gres/mps=50", [(None, None, 1, None, 50)], id="MPS"),
        pytest.param(
            "gres/shard=6,gres/shard:a100=2", [("a100", None, 1, None, 2), (None, None, 1, None, 4)], id="a rest"
        ),
    ],
)
def test_tres_says_what_is_held(text: str, held: list[tuple[Any, ...]]) -> None:
    assert held == [tuple(found) for found in tres_held(text)]


@pytest.mark.parametrize(
    ("text", "held"),
    [
        pytest.param("gpu:h100:2(IDX:0-1)", [("h100", None, 2, "0,1", None)], id="GPUs"),
        pytest.param("shard:0(IDX:N/A),craynetwork:1", [], id="none"),
        pytest.param("shard:h100:4(IDX:2)", [("h100", None, 1, "2", 4)], id="shards of the third GPU"),
        pytest.param("shard:8(IDX:0-1)", [(None, None, 2, "0,1", 8)], id="shards of two GPUs"),
        pytest.param("mps:50(0/100,50/100)", [(None, None, 1, "1", 50)], id="what is used of each"),
        pytest.param("gres:shard:4", [(None, None, 1, None, 4)], id="the option of the job"),
        pytest.param("gres/shard=2", [(None, None, 1, None, 2)], id="the option as TRES"),
        pytest.param("shard", [(None, None, 1, None, 1)], id="without a count it is one"),
        pytest.param("shard:4(CNT:4)", [(None, None, 1, None, 4)], id="without indexes"),
    ],
)
def test_gres_says_what_is_held(text: str, held: list[tuple[Any, ...]]) -> None:
    assert held == [tuple(found) for found in gres_held(text)]


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("h100", ("h100", None)),
        ("a100_1g.5gb", ("a100", "1g.5gb")),
        ("1g.5gb", (None, "1g.5gb")),
        ("1c.3g.20gb", (None, "1c.3g.20gb")),
        ("mig-2g.10gb", (None, "2g.10gb")),
        ("nvidia_h100_80gb_hbm3", ("nvidia_h100_80gb_hbm3", None)),
    ],
)
def test_a_gres_type_splits_into_type_and_profile(name: str, split: tuple[str | None, str | None]) -> None:
    assert split == gpu_type_of(name)


def test_a_total_spreads_and_loses_nothing() -> None:
    assert [4, 4] == spread(8, 2)
    assert [3, 2, 2] == spread(7, 3)
    assert [1, 0] == spread(1, 2)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("UNLIMITED", None),
        ("soon", None),
        ("00:00:48", 48),
        ("1-02:03:04", 93784),
        ("01:57.511", 117),
        ("100:00:00", 360000),
    ],
)
def test_durations(text: str | None, seconds: int | None) -> None:
    assert (None if seconds is None else seconds * 1_000_000) == duration_us(text)


@pytest.mark.parametrize("word", [None, "", "Unknown", "None", "N/A", "(null)"])
def test_a_time_without_a_record_has_no_reading(word: str | None) -> None:
    assert () == possible_times(word, BERLIN)


@pytest.mark.parametrize("word", ["tomorrow", "2026-13-01T00:00:00", "12", "0001-01-01T00:00:00x"])
def test_a_time_that_is_none_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="a time cannot be parsed"):
        possible_times(word, BERLIN)


def test_a_time_has_two_readings_only_where_the_clocks_change() -> None:
    assert (parse_rfc3339("2026-10-24T22:30:00Z"),) == possible_times("2026-10-25T00:30:00", BERLIN)
    assert (parse_rfc3339("2026-10-25T00:30:00Z"), parse_rfc3339("2026-10-25T01:30:00Z")) == possible_times(
        "2026-10-25T02:30:00", BERLIN
    )
    assert parse_rfc3339("2026-03-29T01:30:00Z") == possible_times("2026-03-29T02:30:00", BERLIN)[0]
    assert (parse_rfc3339("2026-10-25T00:30:00Z"),) == possible_times("2026-10-25T02:30:00+02:00", BERLIN)
    assert (parse_rfc3339("2026-11-21T02:08:29Z"),) == possible_times("1795226909", BERLIN)


@pytest.mark.parametrize(
    ("comment", "labels"),
    [
        pytest.param(None, {}, id="no comment"),
        pytest.param("team vision", {}, id="words"),
        pytest.param("[1]", {}, id="a list"),
        pytest.param('{"a": NaN}', {}, id="not JSON"),
        pytest.param("{" * 100_000, {}, id="brackets without end"),
        pytest.param('{"a":' * 100_000, {}, id="an object too deep"),
        pytest.param('{"team":"vision"}', {"team": "vision"}, id="an object"),
        pytest.param('{\\"team\\":\\"vision\\"}', {"team": "vision"}, id="an object with escaped quotes"),
    ],
)
def test_a_comment_that_is_an_object_gives_labels(comment: str | None, labels: dict[str, str]) -> None:
    assert labels == comment_labels(comment)


def test_array_tasks_are_named_one_by_one() -> None:
    assert ["7_2"] == task_ids("7", "2")
    assert ["7_2", "7_3", "7_9"] == task_ids("7", "[2-3,9%2]")
    assert ["7_[1-3,...]"] == task_ids("7", "1-3,...")
    assert ["7_[0-5000]"] == task_ids("7", "0-5000")

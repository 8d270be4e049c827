"""Who finds a MIG instance again under another layout."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.hardware.mig_fit import fitted
from gpuwatch.hardware.mig_profiles import GEOMETRIES

KEY = "H100-80GB"


@pytest.mark.parametrize(
    ("held", "supply", "expected"),
    [
        pytest.param([], {"1g.10gb": 7}, [], id="nobody holds anything"),
        pytest.param(["3g.40gb"], {"1g.10gb": 7}, [None], id="nothing is as large"),
        pytest.param(["1g.20gb"], {"2g.10gb": 1, "1g.10gb": 7}, [None], id="nothing has as much memory"),
        pytest.param(["1g.10gb"], {"2g.20gb": 2, "1g.10gb": 1}, ["1g.10gb"], id="its own profile first"),
        pytest.param(["1g.10gb"], {"7g.80gb": 1, "2g.20gb": 1}, ["2g.20gb"], id="then the smallest larger one"),
        pytest.param(["1g.10gb", "2g.20gb"], {"2g.20gb": 1}, [None, "2g.20gb"], id="an own profile is not taken away"),
        pytest.param(["1g.10gb", "2g.20gb"], {"3g.40gb": 1}, [None, "3g.40gb"], id="the larger holder chooses first"),
        pytest.param(["odd"], {"7g.80gb": 1}, [None], id="an unknown profile fits nowhere else"),
    ],
)
def test_a_holder_gets_its_profile_or_a_larger_one(
    held: list[str], supply: dict[str, int], expected: list[str | None]
) -> None:
    assert expected == fitted(KEY, held, supply)


NAMES = st.sampled_from(("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"))


@given(held=st.lists(NAMES, max_size=8), supply=st.dictionaries(NAMES, st.integers(0, 4)))
def test_no_instance_is_given_twice_and_none_is_too_small(held: list[str], supply: dict[str, int]) -> None:
    found = fitted(KEY, held, supply)
    profiles = GEOMETRIES[KEY].profiles

    assert all(count <= supply[name] for name, count in Counter(place for place in found if place).items())
    for name, place in zip(held, found, strict=True):
        assert place is None or (
            profiles[place].memory_slices >= profiles[name].memory_slices
            and profiles[place].compute_slices >= profiles[name].compute_slices
        )

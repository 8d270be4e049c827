"""The id of a charge: what is encoded is read again, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.billing.charge_id import KINDS, MAX_LENGTH, Asked, decode, encode
from gpuwatch.core.clock import Window
from gpuwatch.core.errors import UsageError
from gpuwatch.ledger.dimensions import CAUSE, DIMENSIONS
from tests.worlds.steady import steady

words = st.none() | st.text(max_size=30)
DAY = Window(1_793_577_600_000_000, 1_793_664_000_000_000)


@pytest.mark.parametrize(
    "text",
    ["", "c1.", "c1.abc", "c2.eyJhIjoxfQ", "c1.ajE", "c1." + "A" * MAX_LENGTH, "c1.e30=", "../x"],
    ids=["empty", "no body", "not packed", "of another version", "not a list", "too long", "padded", "a path"],
)
def test_other_text_is_no_charge(text: str) -> None:
    with pytest.raises(UsageError, match="not a charge id"):
        decode(text)


def test_an_id_is_the_same_everywhere_and_stands_in_a_url() -> None:
    asked = Asked(DAY, (("team", "vision"), ("job", None)), "allocated", "USD")

    text = encode(asked)
    assert asked == decode(text)
    assert (encode(asked), True) == (text, text.replace(".", "").replace("_", "").replace("-", "").isalnum())
    assert encode(asked) != encode(Asked(DAY, (("team", "vision"), ("job", "")), "allocated", "USD"))


@steady
@given(
    st.lists(st.sampled_from((*DIMENSIONS, CAUSE)), unique=True, max_size=4),
    st.sampled_from(KINDS),
    st.tuples(words, words, words, words),
    st.data(),
)
def test_what_is_encoded_is_read_again(
    by: list[str], kind: str, more: tuple[str | None, ...], data: st.DataObject
) -> None:
    asked = Asked(DAY, tuple((name, data.draw(words)) for name in by), kind, *more)

    assert asked == decode(encode(asked))

"""Answers that are kept: as many as there is room for, the one that was not asked for longest goes first."""

from __future__ import annotations

from gpuwatch.store.answer_cache import Answers


def test_what_was_not_kept_is_not_found() -> None:
    assert Answers[str]().find("a") is None


def test_the_one_that_was_not_asked_for_longest_goes_first() -> None:
    answers: Answers[str] = Answers(2)
    answers.keep("a", "1")
    answers.keep("b", "2")
    assert "1" == answers.find("a")
    answers.keep("c", "3")
    assert ["1", None, "3"] == [answers.find(key) for key in "abc"]


def test_nothing_is_found_after_all_was_forgotten() -> None:
    answers: Answers[str] = Answers()
    answers.keep("a", "1")
    answers.forget()
    assert answers.find("a") is None

import pytest
from runs import Item

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.score import answer, normalise, score
from xpress_bench.errors import UsageError


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Answer, is: A cat!", "answer is cat"),
        ("1,234,567", "1234567"),
        ("12,34", "1234"),
        ("3.50 km", "3.50 km"),
        ("It is 3.", "it is 3"),
        ("-3", "-3"),
        ("\N{MINUS SIGN}3", "-3"),
        ("well-known", "wellknown"),
        ("\N{FULLWIDTH DIGIT FOUR}2 %", "42"),
        ("theatre", "theatre"),
    ],
)
def test_normalise(text, normal):
    assert normalise(text) == normal


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2 + 2\nAnswer: 4", "4"),
        ("Answer: 3\nno, wait\n**Answer:** 4\n", "4"),
        ("answer : four\nAnswer:", "four"),
        ("Paris", "Paris"),
        ("The answer is 4", "The answer is 4"),
    ],
)
def test_the_last_answer_line_counts(text, found):
    assert answer(text) == found


@pytest.mark.parametrize(
    ("text", "item", "value"),
    [
        ("Steps…\nAnswer: 1,200.", Item("i", ("1200",)), 1.0),
        ("-3", Item("i", ("3",)), 0.0),
        ("", Item("i", ("3",)), 0.0),
        ("the Danube", Item("i", ("Rhine", "Danube")), 1.0),
        ("14 July 1900", Item("i", ("14 July 1900",), "date"), 1.0),
        ("France, Spain and Italy", Item("i", ("France", "Spain", "Portugal"), "set"), 2 / 3),
        ("Spain; France", Item("i", ("France", "Spain"), "set"), 1.0),
        ("Croatia, Bosnia and Herzegovina", Item("i", ("Bosnia and Herzegovina", "Croatia"), "set"), 1.0),
        ("France, Spain, and Spain", Item("i", ("France", "Spain"), "set"), 1.0),
        ("none", Item("i", ("France",), "set"), 0.0),
    ],
)
def test_default_scorers(text, item, value):
    assert score(text, item) == pytest.approx(value)


def test_scorer_by_category_before_answer_type():
    item = Item("i", ("12",), "exact", "open")
    assert score("It is 12 km", item, {"open": "contains"}) == 1.0
    assert score("It is 112 km", item, {"open": "contains"}) == 0.0
    assert score("12 km", item, {"open": "token_f1", "exact": "contains"}) == pytest.approx(2 / 3)
    assert score("12", item, {"exact": "token_f1"}) == 1.0


def test_chrf_is_between_0_and_1():
    item = Item("i", ("Das Licht ist an.",), "text", "translation")
    assert score("Das Licht ist an.", item) == pytest.approx(1.0)
    assert score("xyz", item) == 0.0
    assert 0.3 < score("Das Licht ist aus.", item) < 1.0


@pytest.mark.parametrize("item", [Item("i"), Item("i", ("a",), "none")])
def test_without_a_reference_there_is_no_score(item):
    assert score("a", item) == Unknown("no reference")


def test_unknown_scorer_is_an_error_with_the_names():
    with pytest.raises(UsageError, match="'rouge' is none of exact, contains"):
        score("a", Item("i", ("a",)), {"qa": "rouge"})

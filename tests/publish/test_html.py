import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hostile import SCRIPT, hostile_items, hostile_run
from runs import COUPLED, Item, exact_study, run

from xpress_bench.publish.html import html
from xpress_bench.publish.view import report
from xpress_bench.records import Memory

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Outline(HTMLParser):
    """Every element with its attributes, the text of each, and whether all that opens is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    def named(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def plain():
    items = [Item(f"p{i}", category="ab"[i % 2]) for i in range(32)]
    memory = [Memory("direct", "process_peak_rss", 432 * 2**20)]
    return report(run(exact_study(), memory=memory), items, "category")


@pytest.fixture(scope="module")
def page(plain):
    return Outline(html(plain))


def test_nothing_is_loaded_from_anywhere(page):
    for tag, attributes in page.elements:
        assert tag not in ("script", "link", "iframe", "object", "embed", "base", "form")
        for name, value in attributes.items():
            assert not name.startswith("on"), tag
            if name in ("src", "href", "xlink:href", "action", "data"):
                assert value.startswith("#"), (tag, value)
            assert not re.search(r"url\((?!#)", value or ""), (tag, value)
    policy = next(one["content"] for one in page.named("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_the_verdict_comes_before_the_tables(plain, page):
    verdict = page.texts.index(plain.page.sections[0].verdict)
    assert verdict < page.texts.index("median latency")
    for row in (*plain.page.sections[0].table.rows, *plain.page.sections[0].breakdown.rows):
        assert set(row) <= set(page.texts)


def test_plots_have_alternative_text_and_ids_of_their_own(page):
    drawn = page.named("svg")
    assert len(drawn) == 5  # no stage was timed, and nothing differs
    assert all(one["role"] == "img" and one["aria-label"].endswith(".") for one in drawn)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    uses = [value[1:] for _, attributes in page.elements for name, value in attributes.items() if name == "xlink:href"]
    assert uses
    assert set(uses) <= set(ids)
    assert "no plot of stage-times" in page.texts


def test_plots_take_the_ink_of_the_page(plain):
    text = html(plain)
    assert "currentColor" in text
    assert "#1b1f24" not in text.split("</style>", 1)[1]


def test_logs_command_and_provenance_are_there(page):
    texts = [text.strip() for text in page.texts]
    for caption in ("Stage times: ms per verify step", "Acceptance and truncation by draft position, from 1"):
        assert caption in texts
    assert texts.count("432 MiB") == 2  # in the table and in the log of memory
    assert "xpress-bench" in texts
    assert texts[texts.index("suite sha256") + 1].startswith("3f9a12")


def test_wide_parts_scroll_in_a_box_that_the_keyboard_reaches(page):
    boxes = [one for one in page.named("div") if one.get("class") == "scroll"]
    assert len(boxes) == len(page.named("table")) + len(page.named("svg"))
    assert all(one["tabindex"] == "0" and one["aria-label"] for one in boxes)
    assert all(one["scope"] in ("col", "row") for one in page.named("th"))


def test_conditions_are_sections_and_ids_stay_apart():
    both = [*exact_study(), *[replace(c, condition=COUPLED) for c in exact_study()]]
    found = Outline(html(report(run(both))))
    assert {"greedy", "temperature 0.7, coupled"} <= set(found.texts)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_hostile_names_are_text():
    text = html(report(hostile_run(), hostile_items(), "category"))
    found = Outline(text)
    assert not found.named("script")
    assert SCRIPT not in text
    assert SCRIPT in "".join(found.texts)
    assert "\x1b" not in text


def test_the_same_bytes_every_time(plain):
    assert html(plain) == html(plain)

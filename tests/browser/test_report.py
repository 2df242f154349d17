"""The report of a run as HTML in a browser, whose names are all markup."""

import pytest
from hostile import ARM, PROMPT, SCRIPT, hostile_items, hostile_run
from readable import FAINT, WIDTHS

from xpress_bench.publish.html import html
from xpress_bench.publish.lines import printable
from xpress_bench.publish.view import report

pytestmark = pytest.mark.browser
# Elements that stick out of the window and are in no box that scrolls by itself.
WIDER = """() => [...document.querySelectorAll("body *")].filter((node) => !node.closest(".scroll, pre") &&
  node.getBoundingClientRect().right > innerWidth + 1).map((node) => node.outerHTML.slice(0, 80))"""

SCROLLS = "(node) => node.scrollWidth > node.clientWidth"


@pytest.fixture(scope="module")
def base(tmp_path_factory, serve):
    folder = tmp_path_factory.mktemp("report")
    page = html(report(hostile_run(), hostile_items(), "category"))
    (folder / "report.html").write_text(page, encoding="utf-8")
    return serve(folder)


@pytest.fixture
def open_page(visit, base):
    return lambda **options: visit(base, "report.html", **options)


def test_names_that_are_markup_are_shown_as_text(open_page):
    page = open_page()
    text = page.locator("main").text_content()
    assert SCRIPT in text
    assert printable(ARM) in text
    assert printable(PROMPT) in text
    assert page.locator("script, img, iframe, object").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_and_can_be_read_without_javascript(open_page, width, scheme):
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    page = open_page(**options)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(WIDER) == []
    assert page.evaluate(FAINT) == []
    assert page.locator("h1").count() == 1
    shown = page.locator("body").inner_text()
    assert "Provenance" in shown
    assert open_page(java_script_enabled=False, **options).locator("body").inner_text() == shown


def test_what_is_wider_than_a_telephone_scrolls_in_its_own_box(open_page):
    page = open_page(viewport={"width": 360, "height": 800})
    boxes = page.get_by_role("region")
    assert boxes.count() > 5
    wide = [box for box in boxes.all() if box.evaluate(SCROLLS)]
    assert wide
    for box in wide:
        box.focus()
        assert page.evaluate(f"({SCROLLS})(document.activeElement)")  # it can be reached by keyboard


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_plots_are_drawn_in_the_ink_of_the_page(open_page, scheme):
    page = open_page(color_scheme=scheme)
    plots = page.locator("figure svg")
    assert plots.count() > 3
    ink = page.evaluate("getComputedStyle(document.body).color")
    words = plots.locator("text").filter(has_text="speed-up").first
    assert words.evaluate("node => getComputedStyle(node).fill") == ink
    assert all(plot.get_attribute("aria-label") for plot in plots.all())

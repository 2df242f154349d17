"""The two commands: submit a run, build the site of all."""

import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest
from runs import ARMS, COUPLED, GREEDY
from submitted import STOP, header, records, use_suite, write

from xpress_bench.errors import UsageError
from xpress_bench.leaderboard import SUBMISSIONS, site, submit
from xpress_bench.publish import shelf
from xpress_bench.publish.bundle import DECLARATION, declare, open_bundle
from xpress_bench.publish.submissions import admitted
from xpress_bench.records import PACKED, Cell, Memory, Replay

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """An empty folder to work in, and a suite of 32 prompts."""
    use_suite(monkeypatch)
    monkeypatch.chdir(tmp_path)


def submitted(name, lines=None, *words):
    return submit([str(write(Path("runs") / name, lines)), *words])


def built(*words):
    return site(["--cache", "cache", *words])


def page(name="index.html"):
    return (Path("site") / name).read_text(encoding="utf-8")


def rows():
    """Rank, submission, first words of the arm and reason of each row of the index, in its order."""
    cells = [re.findall(r"<t[dh].*?</t[dh]>", row) for row in re.findall(r"<tr><td>.*?</tr>", page())]
    texts = [[" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in row] for row in cells]
    return [(text[0], *text[1].split()[:2], text[1].partition("unranked: ")[2]) for text in texts]


def wrong(token=13, verdict="real"):
    """A run whose draft says something else on the first prompt, as a replay found."""
    lines = [
        replace(one, ids=(*one.ids[:-2], token, STOP))
        if isinstance(one, Cell) and (one.arm, one.prompt) == ("draft", "p0")
        else one
        for one in records()
    ]
    return [*lines, Replay("p0", 0, "draft", GREEDY, 7, 12, token, 3.0, 1e-6, verdict)]


def test_a_run_is_submitted_and_shown(capsys):
    assert submitted("Good Run", None, "--contact", "someone", "--url", "https://example.org/x") == 0
    assert "good-run: admitted" in capsys.readouterr().out
    bundle = open_bundle(SUBMISSIONS / "good-run")
    figures = {one.arm: one for one in bundle.declaration.headline}
    assert figures["refine"].speed_up[1] < 2.0 < figures["refine"].speed_up[2]
    assert figures["draft"].tokens_per_step == pytest.approx(8 / 3)
    assert (figures["draft"].identical, figures["direct"].speed_up) == (1.0, None)
    assert built() == 0
    assert "1 submissions, 2 ranked rows" in capsys.readouterr().out
    assert rows() == [("1", "good-run", "refine", ""), ("2", "good-run", "draft", "")]
    own = page("submissions/good-run/index.html")
    for words in (
        "someone",
        "https://example.org/x",
        "same output: <b>shown</b>",
        "By source",
        "--suite qa profile=paper",
    ):
        assert words in own
    packed = Path("site/submissions/good-run") / PACKED
    assert packed.read_bytes() == (SUBMISSIONS / "good-run" / PACKED).read_bytes()
    assert bundle.journal_sha256 in own


def test_a_run_that_breaks_rules_is_refused_and_nothing_is_left():
    lines = [one for one in records(header(profile="quick")) if not isinstance(one, Memory)]
    with pytest.raises(UsageError, match=r"\[launches\].*profile=paper.*; \[memory\].*memory=true") as error:
        submitted("bad", lines)
    assert "\n" not in str(error.value)
    assert list(SUBMISSIONS.iterdir()) == []


@pytest.mark.parametrize("words", [("--url", "http://example.org"), ("--url", "https://a b"), ("--contact", "x" * 201)])
def test_words_that_cannot_be_shown_are_refused(words):
    with pytest.raises(UsageError, match=words[0].removeprefix("--")):
        submitted("good", None, *words)


def test_a_journal_of_nonsense_is_refused_in_one_line():
    for change in ({"suite": {}}, {"settings": {}}, {"machine": {}}, {"arms": ()}):
        lines = records()
        with pytest.raises(UsageError, match=r"\[schema\]"):
            submitted("odd", [replace(lines[0], **change), *lines[1:]])


@pytest.mark.parametrize("name", ["../up", "Upper", "a b", "", "x" * 65, "<b>"])
def test_a_name_that_is_no_folder_is_refused(name):
    with pytest.raises(UsageError, match=r"name|is there already"):
        submitted("good", None, "--name", name or "/")


def test_a_name_is_given_once():
    submitted("good")
    with pytest.raises(UsageError, match="--name"):
        submitted("good")


def test_no_journal():
    with pytest.raises(UsageError, match="no journal at"):
        submit(["nowhere"])


def test_what_is_not_apart_shares_a_rank_and_boards_are_apart():
    for at, (name, speed) in enumerate({"a": 2.0, "b": 2.002, "c": 1.7}.items()):
        submitted(name, records(speed={"direct": 1, "draft": 1.25, "refine": speed}, seed=at))
    gpu = {"hard": {"gpu_name": "Some GPU", "cpu_model": "Some CPU"}, "soft": {}}
    target = header().target | {"device": "cuda:0"}
    submitted("d", records(header(machine=gpu, target=target), speed={"direct": 1, "draft": 3, "refine": 4}))
    built()
    ranks = [(rank, name, arm) for rank, name, arm, _ in rows()]
    assert set(ranks[:2]) == {("1", "a", "refine"), ("1", "b", "refine")}
    assert ranks[2] == ("3", "c", "refine")
    assert [rank for rank, *_ in ranks[3:6]] == ["4"] * 3
    assert ranks[6:] == [("1", "d", "refine"), ("2", "d", "draft")]
    assert page().index("Some CPU, 2 threads, float32, batch 1") < page().index("Some GPU, float32, batch 1")


def test_fast_and_wrong_is_shown_without_a_rank_and_with_the_reason():
    submitted("wrong", wrong())
    built()
    assert rows() == [
        ("1", "wrong", "refine", ""),
        ("–", "wrong", "draft", "output differs on 1 of 32 prompts beyond rounding"),
    ]
    assert '<li class="bad">same output: <b>refuted</b></li>' in page("submissions/wrong/index.html")


def test_a_tie_of_logits_is_not_wrong():
    submitted("tie", wrong(verdict="tie"))
    built()
    assert [reason for *_, reason in rows()] == ["", ""]


def test_too_little_is_preliminary():
    submitted("short", records(header(settings=header().settings | {"launches": 4})))
    built()
    assert {(rank, reason) for rank, *_, reason in rows()} == {("–", "preliminary: 4 launches, 5 are needed")}


def test_a_failed_request_costs_the_rank():
    fail = {"latency_s": None, "ttft_s": None, "ids": (), "stop_reason": None, "error": EVIL, "text": ""}
    lines = [
        replace(one, **fail) if isinstance(one, Cell) and (one.arm, one.prompt) == ("draft", "p0") else one
        for one in records()
    ]
    submitted("failing", lines)
    built()
    assert [rank for rank, *_ in rows()] == ["–", "–"]
    assert "<script>alert" not in page("submissions/failing/index.html")
    assert "&lt;script&gt;alert" in page("submissions/failing/index.html")


def test_an_output_that_nobody_could_judge_has_no_rank():
    rejection = replace(COUPLED, verifier="rejection")
    settings = header().settings | {"seeds": [0, 1]}
    submitted("sampled", records(header(conditions=(rejection,), settings=settings)))
    built()
    assert {rank for rank, *_ in rows()} == {"–"}
    assert all("not shown to be as good" in reason for *_, reason in rows())


def test_a_refused_bundle_is_named_and_the_others_are_shown(capsys):
    submitted("good")
    submitted("boast")
    bundle = open_bundle(SUBMISSIONS / "boast")
    declare(SUBMISSIONS / "boast", replace(bundle.declaration, headline=()))
    (SUBMISSIONS / "empty").mkdir()
    capsys.readouterr()
    assert built() == 1
    told = capsys.readouterr().err
    assert "boast is not admitted: [summary]" in told
    assert f"empty: lacks {DECLARATION}" in told
    assert {name for _, name, *_ in rows()} == {"good"}


def test_names_that_hold_markup_are_text():
    draft = replace(ARMS[1], name=EVIL, drafter=EVIL)
    lines = [
        replace(one, arm=EVIL) if isinstance(one, Cell | Memory) and one.arm == "draft" else one
        for one in records(header(run=EVIL, argv=("--suite", EVIL), versions={"xpress-bench": EVIL}))
    ]
    lines[0] = replace(lines[0], arms=(ARMS[0], draft, ARMS[2]), target=header().target | {"name": EVIL})
    submitted("evil", lines, "--contact", EVIL)
    built()
    for name in ("index.html", "submissions/evil/index.html"):
        assert "<script>alert" not in page(name)
        assert "<img src=x" not in page(name)
        assert "&lt;img src=x onerror=alert(1)&gt;" in page(name)


def test_a_second_build_is_the_same_and_drops_what_is_gone():
    submitted("stays")
    submitted("goes")
    built()
    first = {file: file.read_bytes() for file in Path("site").rglob("*") if file.is_file()}
    built()
    assert first == {file: file.read_bytes() for file in Path("site").rglob("*") if file.is_file()}
    for file in (SUBMISSIONS / "goes").iterdir():
        file.unlink()
    (SUBMISSIONS / "goes").rmdir()
    built()
    assert [path.name for path in Path("site/submissions").iterdir()] == ["stays"]


def test_a_figure_is_computed_once_and_again_when_the_bundle_changes(monkeypatch):
    submitted("good")
    built()
    monkeypatch.setattr(shelf, "admitted", lambda bundle: pytest.fail("read again"))
    assert built() == 0
    bundle = open_bundle(SUBMISSIONS / "good")
    declare(SUBMISSIONS / "good", replace(bundle.declaration, contact="else"))
    with pytest.raises(pytest.fail.Exception, match="read again"):
        built()


class Workers:
    """Processes that are none: each is given a copy of its work and told apart from this one by nothing else."""

    def __init__(self, mp_context):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def map(self, work, bundles, chunksize):
        return [pickle.loads(pickle.dumps(work))(pickle.loads(pickle.dumps(one))) for one in bundles]


def test_many_figures_are_computed_elsewhere_and_a_refused_one_is_told(monkeypatch, capsys):
    for name in ("a", "b", "wild"):
        submitted(name)
    bundle = open_bundle(SUBMISSIONS / "wild")
    declare(SUBMISSIONS / "wild", replace(bundle.declaration, headline=()))
    monkeypatch.setattr(shelf, "MANY", 3)
    monkeypatch.setattr(shelf, "ProcessPoolExecutor", Workers)
    fill, here = shelf.Shelf.fill, []

    def filled(self, bundles):
        fill(self, bundles)
        monkeypatch.setattr(shelf, "admitted", lambda bundle: here.append(bundle.folder.name) or admitted(bundle))

    monkeypatch.setattr(shelf.Shelf, "fill", filled)
    assert built() == 1
    assert here == ["wild"]
    assert "wild is not admitted: [summary]" in capsys.readouterr().err
    assert {name for _, name, *_ in rows()} == {"a", "b"}


def test_folders_that_hold_something_else_are_left_alone():
    submitted("good")
    Path("site").mkdir()
    Path("site/thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="holds other files"):
        built()
    assert [path.name for path in Path("site").iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_written():
    submitted("good")
    Path("cache").write_text("a file")
    with pytest.raises(UsageError, match=r"cache.*choose folders"):
        built()


def test_no_submissions():
    with pytest.raises(UsageError, match="no folder of submissions"):
        built()
    SUBMISSIONS.mkdir(parents=True)
    assert built() == 0
    assert "No submission yet" in page()


def test_pages_reach_out_to_nobody_and_run_only_their_own_script():
    submitted("good")
    built()
    for file in Path("site").rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert "default-src 'none'; script-src 'self'" in text
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)
        assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:", text)
        assert text.count("<script") == 1


def test_a_declaration_holds_no_more_than_it_says():
    submitted("good")
    said = json.loads((SUBMISSIONS / "good" / DECLARATION).read_text(encoding="utf-8"))
    assert set(said) == {"name", "contact", "url", "package", "headline", "sha256"}

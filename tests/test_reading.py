"""The report command: its formats and the folder it writes."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from xpress_bench.cli import main
from xpress_bench.journals import to_line
from xpress_bench.publish.bundle import pack
from xpress_bench.suites import hub, load_suite
from xpress_bench.suites.of_run import items_of

sys.path.append(str(Path(__file__).parent / "analyse"))  # for runs.py, the fake journals

from runs import exact_study, run


@pytest.fixture
def folder(tmp_path):
    journal = run(exact_study())
    header = replace(journal.header, settings=journal.header.settings | {"suite": "gone.jsonl"})
    (tmp_path / "r1").mkdir()
    lines = "\n".join(map(to_line, [header, *journal.cells, journal.footer]))
    (tmp_path / "r1" / "journal.jsonl").write_text(f"{lines}\n", encoding="utf-8")
    return tmp_path / "r1"


@pytest.mark.parametrize(
    ("layout", "start"),
    [("latex", "% needs "), ("csv", "run,condition,group,"), ("html", "<!DOCTYPE html>"), ("markdown", "xpress-bench")],
)
def test_formats(folder, capsys, layout, start):
    assert main(["report", str(folder), "--format", layout]) == 0
    assert capsys.readouterr().out.startswith(start)


def test_plot_writes_a_folder_beside_the_journal(folder, capsys):
    assert main(["report", str(folder), "--plot"]) == 0
    found = {path.relative_to(folder / "report").as_posix() for path in (folder / "report").rglob("*.*")}
    assert {"report.html", "report.md", "report.tex"} <= found
    assert {f"tables/{name}.csv" for name in ("measures", "stage_times", "acceptance", "memory")} <= found
    assert {f"plots/speed-ups.{layout}" for layout in ("svg", "pdf", "png")} <= found
    steps = (folder / "report/tables/acceptance.csv").read_text(encoding="utf-8").splitlines()
    assert len(steps) == 1 + 2 * 32 * 3 * 3  # a header; arms, prompts, repeats, steps
    assert "wrote" in capsys.readouterr().err


def test_plot_of_several_runs_has_a_folder_each(folder, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr("xpress_bench.publish.folder.write", lambda out, _: written.append(out))
    (tmp_path / "r2").mkdir()
    (tmp_path / "r2/journal.jsonl").write_bytes((folder / "journal.jsonl").read_bytes())
    words = ["report", str(folder), str(tmp_path / "r2"), "--plot"]
    assert main(words) == main([*words, "out"]) == 0
    assert written == [folder / "report", tmp_path / "r2/report", Path("out/r1"), Path("out/r2")]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--report-as", "vllm", "--format", "csv"], "of the plain report only; choose --format terminal"),
        (["--together", "--format", "html"], "of the plain report only"),
        (["--together", "--by", "category"], "not allowed with argument"),
        (["{folder}", "--format", "html"], "html is the page of one run"),
        (["--plot", "{folder}/journal.jsonl"], "name a folder that can be written"),
    ],
)
def test_mistakes_are_one_line(folder, capsys, words, told):
    assert main(["report", str(folder), *(word.format(folder=folder) for word in words)]) == 2
    err = capsys.readouterr().err.strip().splitlines()
    assert told in err[-1]


def test_a_submission_is_reported_as_the_run_it_was_made_of(folder, tmp_path, capsys):
    made = tmp_path / "made"
    made.mkdir()
    pack(folder / "journal.jsonl", made)
    main(["report", str(folder), "--format", "csv"])
    plain = capsys.readouterr().out
    for place in (made, made / "journal.jsonl.gz"):
        assert main(["report", str(place), "--format", "csv"]) == 0
        assert capsys.readouterr().out == plain
    assert main(["report", str(made), "--plot"]) == 2
    assert "--plot DIR" in capsys.readouterr().err
    assert [file.name for file in made.iterdir()] == ["journal.jsonl.gz"]


def test_together_prints_one_table(folder, capsys):
    assert main(["report", str(folder), str(folder), "--together"]) == 0
    assert capsys.readouterr().out.count("draft (dflash B=8)") == 2


@pytest.fixture
def suite(tmp_path):
    """A user's suite, and the header of a run over it that names something else."""
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps({"id": "p0", "prompt": "?"}) + "\n", encoding="utf-8")
    known = load_suite(str(file))

    def header(name):
        plain = run(exact_study()).header
        said = plain.suite | {"sha256": known.sha256}
        return replace(plain, settings=plain.settings | {"suite": str(name)}, suite=said)

    return file, header, known.items


@pytest.mark.parametrize("name", ["hf:owner/name", "qa,hf:owner/name", "hf:./folder"])
def test_a_dataset_that_only_a_journal_names_is_not_fetched(suite, monkeypatch, capsys, name):
    file, header, items = suite
    monkeypatch.setattr(hub, "load", lambda _: pytest.fail("a journal made us fetch something"))
    assert items_of(header(name)) == ()
    assert f"'{name}' is no suite of this machine; if you trust it, name it with --suite" in capsys.readouterr().err
    assert items_of(header(name), str(file)) == items


def test_a_dataset_that_the_user_names_is_loaded(suite, monkeypatch):
    file, header, items = suite
    monkeypatch.setattr(hub, "load", lambda _: load_suite(str(file)))
    assert items_of(header("gone.jsonl"), "hf:owner/name") == items


def test_a_file_that_only_a_journal_names_is_used_if_its_hash_is_the_runs(suite, capsys):
    file, header, items = suite
    assert items_of(header(file)) == items
    file.write_text(json.dumps({"id": "p0", "prompt": "another"}) + "\n", encoding="utf-8")
    assert items_of(header(file)) == ()
    assert "own is another than that of this run" in capsys.readouterr().err


def test_what_is_no_plain_file_is_not_opened(suite, tmp_path, capsys):
    """Reading a pipe would never end."""
    _, header, _ = suite
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name in (tmp_path / "pipe.jsonl", tmp_path, "/dev/zero", "x" * 5000, "~nobody-of-that-name/a.jsonl", ""):
        assert items_of(header(name)) == ()
        assert "is no suite of this machine" in capsys.readouterr().err, name


def test_the_commands_take_the_suite_that_the_user_names(folder, tmp_path, capsys):
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps({"id": "p0", "prompt": "?"}) + "\n", encoding="utf-8")
    for command in (["report", str(folder)], ["explain", str(folder)], ["compare", str(folder), str(folder)]):
        main([*command, "--suite", str(file)])
        assert "suite own is another than that of this run" in capsys.readouterr().err

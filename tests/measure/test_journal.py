"""Run folders and their journal: every line is on disk at once, and what was written stays readable."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpress_bench.errors import RunError, UsageError
from xpress_bench.journals import to_line
from xpress_bench.measure.journal import Journal, header_of, new_run_folder, write_whole
from xpress_bench.records import JOURNAL, Footer

FOOTER = Footer(1, 0, True, 2.0)
LINE = to_line(FOOTER) + "\n"


def test_folders_of_one_name_are_numbered(tmp_path: Path) -> None:
    names = [new_run_folder(tmp_path / "runs", "a", "{}").name for _ in range(3)]
    assert names == ["a", "a-2", "a-3"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"output folder .*file/runs: Not a directory; choose another with --out"):
        new_run_folder(tmp_path / "file" / "runs", "a", "{}")


def test_every_line_is_on_disk_before_the_next(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for count in (1, 2, 3):
            journal.write(FOOTER)
            assert (tmp_path / JOURNAL).read_text() == LINE * count
    with Journal(tmp_path) as journal:
        journal.write(FOOTER)
    assert (tmp_path / JOURNAL).read_text() == LINE * 4


def test_half_a_line_of_a_writer_that_was_killed_is_not_glued_to_the_next(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text(LINE + LINE[:9])
    with Journal(tmp_path) as journal:
        journal.write(FOOTER)
    assert (tmp_path / JOURNAL).read_text() == LINE * 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).symlink_to("/dev/full")
    with (
        pytest.raises(RunError, match="No space left on device; what was written before"),
        Journal(tmp_path) as journal,
    ):
        journal.write(FOOTER)


def test_a_whole_file_is_there_or_not(tmp_path: Path) -> None:
    write_whole(tmp_path / "file.json", "one")
    write_whole(tmp_path / "file.json", "two")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("file.json", "two")]
    with pytest.raises(RunError, match=r"gone/file\.json: No such file or directory"):
        write_whole(tmp_path / "gone" / "file.json", "one")


def test_the_header_is_read_without_the_rest(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_text("")
    assert header_of(tmp_path) is None
    (tmp_path / JOURNAL).write_text('{"kind":"head')
    assert header_of(tmp_path) is None
    (tmp_path / JOURNAL).write_text(LINE)
    with pytest.raises(UsageError, match="line 1: a journal starts with its header"):
        header_of(tmp_path)
    (tmp_path / JOURNAL).write_text("{}\n")
    with pytest.raises(UsageError, match="line 1: not a journal record"):
        header_of(tmp_path)


def test_writing_outside_the_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="outside"):
        Journal(tmp_path).write(FOOTER)

"""Bundles come from strangers: what is not two small plain files with an honest declaration is refused unread."""

import gzip
import hashlib
import json
import os
import zlib
from dataclasses import replace

import pytest
from submitted import records, write

from xpress_bench.journals import read_run, to_line
from xpress_bench.publish import bundle
from xpress_bench.publish.bundle import (
    DECLARATION,
    Declaration,
    RefusedError,
    declare,
    open_bundle,
    pack,
    read_bundle,
    sha256_of,
    slug,
    unpacked,
)
from xpress_bench.records import JOURNAL, PACKED


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    pack(write(folder / "run") / JOURNAL, folder)
    return (folder / PACKED).read_bytes()


@pytest.fixture
def folder(tmp_path, packed):
    return bundled(tmp_path / "ours", packed)


def bundled(folder, packed, **changes):
    """A bundle with these bytes for its journal, and a declaration with these changes."""
    folder.mkdir()
    (folder / PACKED).write_bytes(packed)
    said = {"name": folder.name, "contact": None, "url": None, "package": "0.1.0", "headline": []}
    said |= {"sha256": {PACKED: hashlib.sha256(packed).hexdigest()}} | changes
    (folder / DECLARATION).write_text(json.dumps(said), encoding="utf-8")
    return folder


def refused(folder, code, words=None):
    with pytest.raises(RefusedError, match=words) as error:
        read_bundle(open_bundle(folder))
    assert error.value.code == code
    assert f"[{code}]" in str(error.value)
    assert "\n" not in str(error.value)


def lines(folder):
    return [json.loads(line) for line in gzip.decompress((folder / PACKED).read_bytes()).splitlines()]


def test_a_run_comes_back_as_it_was(folder, tmp_path):
    ours, theirs = read_bundle(open_bundle(folder)), read_run(write(tmp_path / "run"))
    whole = [replace(cell, steps=cell.steps.tally) for cell in theirs.cells]
    assert list(ours.cells) == whole
    assert ours.header.arms == theirs.header.arms


def test_what_tells_a_machine_from_its_like_stays_at_home(folder):
    found = lines(folder)
    machines = [one["machine"] for one in found if one["kind"] == "header" or one.get("event") == "started"]
    assert len(machines) == 6  # the header's and that of each launch
    assert all("soft" not in machine and machine["hard"]["cpu_model"] == "Some CPU" for machine in machines)
    assert [one["device_uuid"] for one in found if one["kind"] == "memory"] == [None] * 3
    assert b"c0ffee" not in gzip.decompress((folder / PACKED).read_bytes())


def test_lines_of_cells_are_not_touched_and_a_torn_one_is_left_out(tmp_path):
    run = write(tmp_path / "run")
    journal = (run / JOURNAL).read_bytes()
    (run / JOURNAL).write_bytes(journal + b'{"kind":"cell"')
    pack(run / JOURNAL, tmp_path)
    cells = [line for line in journal.splitlines() if line.startswith(b'{"kind":"cell"')]
    kept = gzip.decompress((tmp_path / PACKED).read_bytes()).splitlines()
    assert [line for line in kept if line.startswith(b'{"kind":"cell"')] == cells
    assert len(kept) == len(journal.splitlines())


def test_the_same_run_gives_the_same_bytes(tmp_path, packed):
    pack(write(tmp_path / "elsewhere") / JOURNAL, tmp_path)
    assert (tmp_path / PACKED).read_bytes() == packed


def test_a_declaration_is_read_as_it_was_written(folder):
    said = Declaration("ours", "a <b> c", "https://example.org/?a=1", "0.1.0", (), {PACKED: sha256_of(folder / PACKED)})
    declare(folder, said)
    assert open_bundle(folder).declaration == said


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = b"".join(bomb.compress(b"\n" * 2**20) for _ in range(64)) + bomb.flush()
    assert len(packed) < 2**17
    monkeypatch.setattr(bundle, "MAX_JOURNAL_BYTES", 2**23)
    folder = bundled(tmp_path / "bomb", packed)
    refused(folder, "size", "journal of more than 8388608 bytes")
    pieces = []
    with pytest.raises(RefusedError):
        pieces.extend(map(len, unpacked(folder / PACKED)))
    assert sum(pieces) <= 2**23


def test_a_gigantic_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MAX_LINE_BYTES", 10_000)
    monkeypatch.setattr(bundle, "CHUNK_BYTES", 4096)  # so that the line is longer than a piece
    refused(bundled(tmp_path / "last", gzip.compress(b"x" * 10_001)), "size", "line of more than 10000 bytes")
    refused(bundled(tmp_path / "first", gzip.compress(b"x" * 10_001 + b"\n" * 9)), "size", "line of more than")
    fits = bundled(tmp_path / "fits", gzip.compress((b"x" * 9_999 + b"\n") * 3))
    assert sum(map(len, unpacked(fits / PACKED))) == 30_000


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"kind":"footer","cells":1e999,"errors":0,"complete":true,"seconds":1}',
        b'{"kind":"cell","launch":' + b"9" * 5000 + b"}",
        b'{"kind":"cell"}',
        b'{"kind":"../x"}',
        b"\xff\xfe",
    ],
)
def test_malformed_lines_are_refused(tmp_path, line):
    first = to_line(records()[0]).encode()
    refused(
        bundled(tmp_path / "ours", gzip.compress(first + b"\n" + line + b"\n")), "schema", "journal.jsonl.gz, line 2"
    )


def test_an_empty_journal_is_refused(tmp_path):
    refused(bundled(tmp_path / "ours", gzip.compress(b"")), "schema")


@pytest.mark.parametrize(
    "cut", [lambda b: b[:-20], lambda b: b"PK\x03\x04" + b, lambda b: b[:99] + b"x" * 99 + b[198:]]
)
def test_what_is_no_gzip_is_refused(tmp_path, packed, cut):
    refused(bundled(tmp_path / "ours", cut(packed)), "files", "not gzip")


def test_a_large_file_is_refused_unread(folder, monkeypatch):
    monkeypatch.setitem(bundle.MAX_BYTES, PACKED, 1000)
    refused(folder, "size", "larger than 1000 bytes")


def test_links_are_refused(tmp_path, folder, packed):
    target = tmp_path / "secret"
    target.write_bytes(packed)
    (folder / PACKED).unlink()
    (folder / PACKED).symlink_to(target)
    refused(folder, "files", "plain files")
    (tmp_path / "linked").symlink_to(folder)
    refused(tmp_path / "linked", "files", "link")


def test_other_files_and_folders_are_refused(folder):
    (folder / "evil.html").write_text("<script>")
    refused(folder, "files", "evil.html")
    (folder / "evil.html").unlink()
    (folder / PACKED).unlink()
    refused(folder, "files", f"lacks {PACKED}")
    (folder / PACKED).mkdir()
    refused(folder, "files", "plain files")


def test_a_pipe_is_refused_and_not_waited_for(folder):
    (folder / PACKED).unlink()
    os.mkfifo(folder / PACKED)
    refused(folder, "files", "plain files")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../../etc"},
        {"name": "theirs"},
        {"name": "<script>"},
        {"name": None},
        {"url": "javascript:alert(1)"},
        {"url": "https://example.org\n"},
        {"url": "http://example.org"},
        {"url": "https://a\" onclick='x'\n"},
        {"contact": "x" * 201},
        {"headline": [{"condition": "greedy"}]},
        {"headline": "x"},
        {"package": 1},
    ],
)
def test_declarations_of_another_shape_are_refused(tmp_path, packed, changes):
    refused(bundled(tmp_path / "ours", packed, **changes), "declaration")


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[" * 50_000, b'{"name":NaN}', b"\xff", b'{"name":' + b"9" * 9999 + b"}"]
)
def test_what_is_no_declaration_is_refused(folder, body):
    (folder / DECLARATION).write_bytes(body)
    refused(folder, "declaration")


@pytest.mark.parametrize(
    "hashes", [{}, {PACKED: "0" * 64}, {PACKED: None, "../x": "0"}, {"../../etc/passwd": "0" * 64}]
)
def test_hashes_have_to_be_those_of_the_files(tmp_path, packed, hashes):
    with pytest.raises(RefusedError):
        open_bundle(bundled(tmp_path / "ours", packed, sha256=hashes))


def test_a_journal_that_was_changed_after_it_was_declared_is_refused(folder, packed):
    (folder / PACKED).write_bytes(packed + b"\0")
    refused(folder, "hashes")


def test_names():
    assert slug("2026-01-31T12-00-00Z-qa-7c1f") == "2026-01-31t12-00-00z-qa-7c1f"
    assert slug("../<b> Ünder_score!") == "b-nder-score"
    assert len(slug("x" * 99)) == 64

"""A published journal names no folder of the machine that it was measured on."""

import json

import pytest

from xpress_bench.publish.anonymous import anonymous


def packed(**body):
    return json.loads(anonymous((json.dumps(body, separators=(",", ":")) + "\n").encode()))


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        (["--suite", "qa", "--out", "/home/alice/runs"], ["--suite", "qa"]),
        (["--out=/home/alice/runs", "limit=5"], ["limit=5"]),
        (["out=/home/alice/runs", "--suite", "qa"], ["--suite", "qa"]),
        (["--out", "runs"], []),
        (["--suite", "qa", "--out"], ["--suite", "qa"]),
        (["--drafter", "/home/alice/my models/Qwen3-8B-DFlash"], ["--drafter", "Qwen3-8B-DFlash"]),
        (["target.name=/home/alice/Qwen3"], ["target.name=Qwen3"]),
        (["--target=/home/alice/Qwen3/"], ["--target=Qwen3"]),
        (["--target", r"C:\Users\alice\Qwen3"], ["--target", "Qwen3"]),
        (["--target", r"\\server\alice\Qwen3"], ["--target", "Qwen3"]),
        (["--target", "~/models/Qwen3"], ["--target", "Qwen3"]),
        (["--refiner", "/home/alice/xpress+/home/alice/confidence"], ["--refiner", "xpress+confidence"]),
        (["--refiner", "markov+/home/alice/confidence"], ["--refiner", "markov+confidence"]),
        (["--suite", "/home/alice/a.jsonl,/home/alice/b.jsonl"], ["--suite", "a.jsonl,b.jsonl"]),
        (["--target", "Qwen/Qwen3-8B"], ["--target", "Qwen/Qwen3-8B"]),
        (["--drafter", "models/here"], ["--drafter", "models/here"]),
        (["--target", "openai:http://localhost:8000/v1"], ["--target", "openai:http://localhost:8000/v1"]),
        (["--suite", "hf:owner/name", "seeds=[0,1]"], ["--suite", "hf:owner/name", "seeds=[0,1]"]),
    ],
)  # fmt: skip
def test_words_of_the_command_line(argv, kept):
    assert packed(kind="header", argv=argv)["argv"] == kept


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no room on /home/alice/runs: free some", "no room on runs: free some"),
        ("FileNotFoundError: '/home/alice/m/config.json'", "FileNotFoundError: 'config.json'"),
        (r"see C:\Users\alice\log.txt (line 3)", "see log.txt (line 3)"),
        ("see file:///home/alice/log.txt", "see log.txt"),
        ("see https://example.org/a/b", "see https://example.org/a/b"),
        ("2.4 ms/step, 3 / 4, and/or", "2.4 ms/step, 3 / 4, and/or"),
    ],
)
def test_sentences_keep_the_last_part_of_a_path(said, told):
    for kind in ("launch", "memory", "control"):
        assert packed(kind=kind, reason=said)["reason"] == told
    for kind in ("cell", "trace"):
        assert packed(kind=kind, error=said)["error"] == told


def test_settings_and_names_in_the_header():
    settings = {"out": "/home/alice/runs", "target": {"name": "/home/alice/Qwen3"}, "refiner": {"path": None}}
    found = packed(kind="header", argv=[], settings=settings, target={"name": "/home/alice/Qwen3", "parameters": 7})
    assert found["settings"] == {"target": {"name": "Qwen3"}, "refiner": {"path": None}}
    assert found["target"] == {"name": "Qwen3", "parameters": 7}


def test_arms_keep_their_names_and_their_parts_lose_folders():
    arms = [{"name": "draft", "drafter": "/home/alice/DFlash", "refiner": None, "block_size": 8}]
    assert packed(kind="header", argv=[], arms=arms)["arms"] == [arms[0] | {"drafter": "DFlash"}]
    assert packed(kind="memory", arm="/draft", reason=None)["arm"] == "/draft"


def test_what_a_model_wrote_is_no_path_of_ours():
    cell = {"kind": "cell", "text": "look into /home/alice/x", "ids": [1, 2]}
    line = (json.dumps(cell | {"error": None}, separators=(",", ":")) + "\n").encode()
    assert anonymous(line) == line
    assert packed(**cell, error="at /home/alice/y")["text"] == cell["text"]


@pytest.mark.parametrize("line", [b"no record\n", b"[1]\n", b'{"kind":"header"\n', b"\xff\n"])
def test_what_is_no_record_is_left_for_the_reader_to_refuse(line):
    assert anonymous(line) == line


@pytest.mark.parametrize("odd", [{"argv": [1]}, {"argv": None}, {"arms": [1]}, {"arms": None}, {"settings": 1}])
def test_headers_of_another_shape_are_left_for_the_rules_to_refuse(odd):
    assert packed(kind="header", **odd) == {"kind": "header"} | odd

"""Datasets as suites, offline: folders of files, a cache made here, and a hub that is only pretended."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xpress_bench.errors import UsageError
from xpress_bench.suites import hub, load_suite

WORDS = [{"question": f"How many are {n} twos?", "answer": f"{n}*2\n#### {2 * n}"} for n in range(3)]
OPEN = [
    {"q": "Capital of Latvia?", "gold": ["Riga", "Rīga"], "kind": 1, "key": 7},
    {"q": "Sum of 1 and 2?", "gold": None, "kind": 2, "key": 8},
]
COMMIT, OTHER = "a" * 40, "b" * 40
NAMED = "prompt=q&references=gold&category=kind&id=key"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, in a folder that is the working directory."""
    import datasets

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache"


def write(records: list[Any], name: str = "data/test.jsonl") -> Path:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return file


def refused(name: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_suite(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_known_set_needs_no_columns() -> None:
    file = write(WORDS)
    suite = load_suite("hf:./data")
    assert (suite.name, suite.version, suite.budgets) == ("gsm8k", "local", {"math": 512})
    assert [item.references for item in suite.items] == [("0",), ("2",), ("4",)]
    alone = load_suite(str(file))
    assert (suite.items, suite.sha256) == (alone.items, alone.sha256)  # however it was loaded, it is one suite


def test_columns_can_be_named() -> None:
    write(OPEN, "my set/test.jsonl")
    first, second = load_suite(f"hf:./my set?{NAMED}").items
    assert (first.id, first.category, first.prompt) == ("7", "1", "Capital of Latvia?")
    assert (first.references, first.answer_type, first.origin) == (("Riga", "Rīga"), "exact", "user")
    assert second.references == ()
    suite = load_suite("hf:./my set?prompt=q&references=key&answer_type=set")
    assert (suite.name, suite.items[1].id) == ("my-set", "my-set-0002")
    assert (suite.items[1].references, suite.items[1].answer_type) == (("8",), "set")
    assert load_suite("hf:./my set?prompt=q").items[0].answer_type == "none"


def test_a_column_of_lists_is_one_of_turns() -> None:
    write([{"asked": ["a", "b"]}, {"asked": ["c"]}])
    first, second = load_suite("hf:data?prompt=asked").items
    assert (first.prompt, first.turns, second.prompt, second.turns) == ("a", ("a", "b"), "c", None)


def test_our_own_format_in_a_folder() -> None:
    write([{"prompt": "a", "references": ["b"], "answer_type": "exact"}])
    item = load_suite("hf:./data").items[0]
    assert (item.id, item.references) == ("data-0001", ("b",))


def test_another_text_is_another_suite() -> None:
    write(WORDS)
    write([*WORDS[:2], WORDS[2] | {"question": "How many?"}], "other/test.jsonl")
    assert load_suite("hf:./data").sha256 != load_suite("hf:./other").sha256


def test_configs_and_splits() -> None:
    write(WORDS, "data/main/test.jsonl")
    write(WORDS[:1], "data/main/train.jsonl")
    write(WORDS[:2], "data/more/test.jsonl")
    files = "".join(
        f"- config_name: {name}\n  data_files:\n"
        + "".join(f"  - {{split: {one}, path: {name}/{one}.jsonl}}\n" for one in splits)
        for name, splits in (("main", ("test", "train")), ("more", ("test",)))
    )
    Path("data/README.md").write_text(f"---\nconfigs:\n{files}---\n")
    assert len(load_suite("hf:./data?config=main").items) == 3
    assert len(load_suite("hf:./data?config=main&split=train").items) == 1
    assert len(load_suite("hf:./data?config=main&split=train+test").items) == 4
    assert len(load_suite("hf:./data?split=test&config=more").items) == 2
    for name, told in (
        ("hf:./data", "main"),
        ("hf:./data?config=mian", "main"),
        ("hf:./data?config=more&split=train", "test"),
    ):
        message = refused(name)
        assert told in message
        assert message.endswith("choose with config=, split= and revision=")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("hf:", "give a dataset as hf:owner/name"),
        ("hf:?split=test", "give a dataset as hf:owner/name"),
        ("hf:a/b?splitt=test", "no option 'splitt'; did you mean split?"),
        ("hf:a/b?zzz=1", "no option 'zzz'; there are config, split"),
        ("hf:a/b?trust_remote_code=true", "no option 'trust_remote_code'"),
        ("hf:a/b?split", "bad query field"),
        ("hf:a/b?split=", "give one value of 'split'"),
        ("hf:a/b?split=test&split=train", "give one value of 'split'"),
        ("hf:a/b?references=x", "prompt=COLUMN"),
        ("hf:a/b?prompt=x&answer_type=fuzzy", "answer_type is one of exact, set, date, text"),
        ("hf:./gone", "is no folder here"),
        ("hf:~/gone", "is no folder here"),
        ("hf:~nobody-of-this-name/a", "is neither a path nor a hub id"),
        ("hf:" + "a" * 5000, "is neither a path nor a hub id"),
        ("hf:a/b/c", "no hub id, which looks like owner/name"),
        ("hf:data/test.jsonl", "is a file: give its folder"),
        ("hf:data?revision=main", "has no revisions"),
        ("hf:data?prompt=question2", "has no column 'question2'; did you mean question?"),
        ("hf:data?prompt=zzz", "has no column 'zzz'; there are question, answer"),
    ],
)
def test_an_address_that_is_wrong(name: str, told: str) -> None:
    write(WORDS)
    assert told in refused(name)


@pytest.mark.parametrize(
    ("records", "told"),
    [
        (
            [{"a": "b"}],
            "has the columns a, those of no known set; say which holds the prompts: 'hf:data?prompt=COLUMN'",
        ),
        ([WORDS[0], {"question": None, "answer": "#### 1"}], "dataset 'data', row 2: field 'question' is missing"),
        ([WORDS[0], {"question": "a", "answer": "1"}], "row 2: field 'answer' holds no result"),
        ([{"prompt": "a", "id": "x"}, {"prompt": "b", "id": "x"}], "row 2: id 'x' stands on row 1 already"),
        ([{"prompt": 3}], "row 1: field 'prompt' is int, not text"),
    ],
)
def test_a_row_that_is_wrong(records: list[Any], told: str) -> None:
    write(records)
    assert told in refused("hf:data")


@pytest.mark.parametrize("gold", [True, 1.5, {"a": 1}, [1], [" "]])
def test_references_that_are_none(gold: Any) -> None:
    write([{"q": "a", "gold": gold}])
    assert "row 1: field 'gold' is" in refused("hf:data?prompt=q&references=gold")


def test_folders_that_hold_no_data() -> None:
    Path("data").mkdir()
    assert "dataset './data' does not load (" in refused("hf:./data")
    Path("data/test.jsonl").write_text('{"question": ')
    assert "dataset './data' does not load (" in refused("hf:./data")


class Hub:
    """Stands for the hub: what it is asked, and what it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Any, rows: Any = WORDS, held: str | None = None):
        import datasets
        import huggingface_hub

        self.asked: list[Any] = []
        self.loaded: list[Any] = []
        self.answer = answer
        self.rows = datasets.Dataset.from_list(rows)
        self.held = held
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub, "HfApi", lambda: self)
        monkeypatch.setattr(datasets, "load_dataset", self.load_dataset)

    def dataset_info(self, path: str, revision: str | None) -> Any:
        self.asked.append((path, revision))
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(sha=self.answer)

    def load_dataset(self, path: str, **options: Any) -> Any:
        self.loaded.append((path, options))
        if isinstance(self.rows, Exception):
            raise self.rows
        if self.held:
            file = f"cache/owner___name/main/0.0.0/{self.held}/name-test.arrow"
            return SimpleNamespace(cache_files=[{"filename": file}])
        return self.rows


def test_the_newest_commit_is_looked_up_and_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Hub(monkeypatch, COMMIT)
    suite = load_suite("hf:openai/gsm8k?config=main")
    assert (suite.name, suite.version) == ("gsm8k", COMMIT)
    assert far.asked == [("openai/gsm8k", None)]
    assert far.loaded == [("openai/gsm8k", {"name": "main", "split": "test", "revision": COMMIT})]


def test_a_branch_is_recorded_as_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Hub(monkeypatch, COMMIT)
    assert load_suite("hf:openai/gsm8k?revision=main&split=train").version == COMMIT
    assert far.asked == [("openai/gsm8k", "main")]
    assert far.loaded[0][1] == {"name": None, "split": "train", "revision": COMMIT}


def test_data_of_another_commit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a download fails the library falls back to whatever its cache holds."""
    Hub(monkeypatch, COMMIT, held=OTHER)
    assert f"is in the cache as of commit {OTHER}, not {COMMIT}" in refused("hf:openai/gsm8k")


def hub_error(name: str) -> Exception:
    """One of the hub's errors without the response that it is about."""
    from huggingface_hub import errors

    kind = getattr(errors, name)
    made: Exception = kind.__new__(kind, "said\nmuch")
    return made


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("RepositoryNotFoundError", "not on the hub, or private"),
        ("GatedRepoError", "is gated: ask for access"),
        ("RevisionNotFoundError", "has no revision 'v9' on the hub"),
        ("HfHubHTTPError", "the hub cannot be reached (HfHubHTTPError); give a local folder"),
    ],
)
def test_what_the_hub_refuses(monkeypatch: pytest.MonkeyPatch, name: str, told: str) -> None:
    Hub(monkeypatch, hub_error(name))
    assert told in refused("hf:owner/name?revision=v9")


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Hub(monkeypatch, ConnectionError("name or service not known"))
    message = refused("hf:owner/name")
    assert "the hub cannot be reached (ConnectionError)" in message
    assert "HF_HUB_OFFLINE=1" in message
    assert far.loaded == []


def test_a_dataset_that_is_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Hub(monkeypatch, COMMIT)
    far.rows = RuntimeError("Dataset scripts are no longer supported, but found name.py")
    assert "does not load (Dataset scripts are no longer supported" in refused("hf:owner/name")
    assert "trust_remote_code" not in far.loaded[0][1]


@pytest.fixture
def offline(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache as a download of owner/name at COMMIT leaves it, and no network."""
    import datasets

    write(WORDS)
    load_suite("hf:./data")
    made = next(cache.rglob("dataset_info.json")).parent
    target = cache / "owner___name" / "default" / "0.0.0" / COMMIT
    shutil.copytree(made, target)
    for file in target.glob("*.arrow"):
        file.rename(target / "name-test.arrow")
    info = json.loads((target / "dataset_info.json").read_text())
    (target / "dataset_info.json").write_text(json.dumps(info | {"dataset_name": "name", "config_name": "default"}))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    return cache


@pytest.mark.parametrize("query", ["", "?revision=main", f"?revision={COMMIT}"])
def test_offline_the_commit_is_read_from_the_cache(offline: Path, query: str) -> None:
    suite = load_suite(f"hf:owner/name{query}")
    assert (suite.name, suite.version, len(suite.items)) == ("gsm8k", COMMIT, 3)


def test_offline_another_commit_is_refused(offline: Path) -> None:
    assert f"as of commit {COMMIT}, not {OTHER}; connect" in refused(f"hf:owner/name?revision={OTHER}")


def test_offline_without_the_data(offline: Path) -> None:
    message = refused("hf:owner/other")
    assert "dataset 'owner/other' does not load (" in message
    assert message.endswith("connect once, so that the cache holds it")
    assert "config 'main'" in refused("hf:owner/name?config=main")


def test_offline_an_unknown_commit_is_said_to_be_unknown(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_held", lambda dataset: None)
    assert load_suite("hf:owner/name").version == "offline, revision unknown"

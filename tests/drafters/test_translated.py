"""A draft model with another tokenizer: texts that grow, joins by hand, and the embedded pair with renumbered ids."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from xpress_bench import parts
from xpress_bench.config import settings_from
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.draft_model import EMBEDDED, DraftModel, load
from xpress_bench.drafters.translated import Translated, Written, added_text
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets.hf import EMBEDDED as EMBEDDED_TARGET
from xpress_bench.targets.hf import HfTarget
from xpress_bench.targets.toy import ByteTokenizer

TEXT = (
    "The quick brown fox jumps over the lazy dog.  Two spaces, then a line:\n\n\tdef f(x):\n        return x + 1\n"
    "Größe, naïve, 漢字かな, emoji \U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 and 1234567890.\n"
    + "a" * 70
    + " "
) * 2


def byte_level(size: int = 330) -> PreTrainedTokenizerFast:
    """Byte pairs as of GPT-2, whose offsets leave out the space before a word."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([TEXT, "hello world, other words"], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def sentence_piece() -> PreTrainedTokenizerFast:
    """As of Llama 2: a space before the text, bytes for what has no id, and a token that begins every text."""
    pieces = [
        "<s>",
        "<unk>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        *"helowrd",
        "he",
        "▁b",
        "▁w",
        "ll",
        "▁▁",
    ]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    merges = [("h", "e"), ("▁", "w"), ("l", "l"), ("▁", "▁")]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={**vocab, "b": len(vocab)}, merges=[*merges, ("▁", "b")], unk_token="<unk>", byte_fallback=True
        )
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([AddedToken("<s>", special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


def embedded() -> Any:
    return AutoTokenizer.from_pretrained(EMBEDDED_TARGET)


TOKENIZERS = {"byte_level": byte_level, "sentence_piece": sentence_piece, "embedded": embedded}


# The text in the draft model's ids


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_text_that_grows_has_the_ids_of_the_whole(kind: str) -> None:
    tokenizer, rng, reused = TOKENIZERS[kind](), random.Random(0), 0
    for _ in range(6):
        written, done = Written(tokenizer), rng.randrange(150)
        before: list[int] = []
        written.grow(TEXT[:done])
        while done < len(TEXT):
            more = TEXT[done : done + rng.randint(1, 12)]
            done += len(more)
            before = written.ids
            same = written.grow(more)
            assert written.ids == tokenizer(TEXT[:done])["input_ids"]
            assert written.ids[:same] == before[:same]
            assert same == min(len(before), len(written.ids)) or written.ids[same] != before[same]
            reused += same > 0
    assert reused > 100


def test_only_the_end_is_encoded_again() -> None:
    tokenizer, lengths = byte_level(), []

    class Counting:
        def __call__(self, text: str, **options: Any) -> Any:
            lengths.append(len(text))
            return tokenizer(text, **options)

    written = Written(Counting())
    for start in range(0, len(TEXT) - 10, 10):
        written.grow(TEXT[start : start + 10])
    assert max(lengths[-20:]) < 150 < len(written.text)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_pieces_of_text_make_the_whole(kind: str) -> None:
    tokenizer, rng = TOKENIZERS[kind](), random.Random(1)
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    text, start, end = "", 0, 0
    while end < len(ids):
        end = min(len(ids), end + rng.randint(1, 5))
        piece = added_text(tokenizer, ids[:end], start)
        if not piece.endswith("\ufffd"):  # half a character waits for its other half
            text, start = text + piece, end
    assert text == tokenizer.decode(ids)


# The continuation in the target's ids, by hand


class Fixed:
    """In place of a draft model: continues every text with the same ids, and notes what it was asked."""

    def __init__(self, ids: Sequence[int], block_size: int = 8) -> None:
        self.ids = list(ids)
        self.block_size = block_size
        self.folder = None
        self.model = SimpleNamespace(device=tiny.CPU)
        self.read: list[list[int]] = []

    def start(self, target: Any, prompt: Any, features: Any) -> None:
        """Nothing to keep."""

    def rewind(self, count: int) -> None:
        """Nothing to forget."""

    def propose(self, context: Context, sampling: Any) -> Draft:
        self.read.append(list(context.tokens))
        assert (context.position, int(context.anchor)) == (len(context.tokens) - 1, context.tokens[-1])
        return Draft(torch.tensor([self.ids[: context.room - 1]]))


def continued(target: Any, own: Any, text: str | list[int], continuation: list[int] | str) -> list[int]:
    """The ids that are drafted behind `text` when the draft model says `continuation`."""
    ids = continuation if isinstance(continuation, list) else own(continuation, add_special_tokens=False)["input_ids"]
    drafter = Translated(Fixed(ids), own)  # type: ignore[arg-type]
    drafter.translate_from(target)
    return drafted(drafter, text if isinstance(text, list) else target(text)["input_ids"])


def drafted(drafter: Translated, tokens: list[int], room: int = 1000) -> list[int]:
    drafter.start(tiny.qwen3(layers=1), torch.tensor([tokens[:1]]), None)
    return again(drafter, tokens, room)


@torch.inference_mode()
def again(drafter: Translated, tokens: list[int], room: int = 1000) -> list[int]:
    last = torch.tensor([[0, *tokens][-2:]])
    draft = drafter.propose(
        Context(tokens, last[:, 1], last[:, 0], len(tokens) - 1, room), tiny.sampling(1.0, "coupled")
    )
    assert (draft.point_mass, draft.logits, draft.tokens.dtype) == (True, None, torch.long)
    return draft.tokens[0].tolist()  # type: ignore[no-any-return]


def test_the_continuation_is_put_into_the_targets_ids() -> None:
    pieces, own = sentence_piece(), byte_level()
    ids = pieces.get_vocab()
    assert continued(pieces, own, "he", "llo w") == [ids["ll"], ids["o"], ids["▁w"]]
    assert continued(pieces, own, "he", " w") == [ids["▁w"]]  # alone, " w" would begin with two spaces
    assert pieces(" w", add_special_tokens=False)["input_ids"] == [ids["▁"], ids["▁w"]]


def test_where_the_join_would_melt_the_continuation_stands_alone() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"h": 0, "e": 1, "l": 2, "o": 3, "ll": 4}, merges=[("l", "l")]))
    target = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    assert target("hello")["input_ids"] == [0, 1, 4, 3]
    assert continued(target, byte_level(), [0, 1, 2], "lo") == [2, 3]  # the "l" is said, and cannot become "ll"
    assert continued(target, byte_level(), [0, 1], "llo") == [4, 3]


def test_half_a_character_is_neither_continued_nor_drafted() -> None:
    target, own = byte_level(256), byte_level()
    pile = "\U0001f600".encode()
    ids = target("x\U0001f600")["input_ids"]
    assert len(ids) == 1 + len(pile)
    assert continued(target, own, ids[:-1], "abc") == []
    assert continued(target, own, ids, "abc") == target("abc")["input_ids"]
    half = byte_level(256)("b\U0001f600")["input_ids"][:-1]
    assert continued(target, byte_level(256), "x", half) == target("b")["input_ids"]


def test_it_waits_for_the_rest_of_a_character_and_then_reads_it_whole() -> None:
    target, own = byte_level(256), byte_level()
    model = Fixed(own("abc")["input_ids"])
    drafter = Translated(model, own)  # type: ignore[arg-type]
    drafter.translate_from(target)
    tokens = target("x\U0001f600y")["input_ids"]
    assert [bool(drafted(drafter, tokens[:1])), *(bool(again(drafter, tokens[:n])) for n in range(2, 7))] == [
        True, False, False, False, True, True
    ]  # fmt: skip
    assert model.read == [own(text)["input_ids"] for text in ("x", "x\U0001f600", "x\U0001f600y")]


@pytest.mark.parametrize(("room", "count"), [(99, 3), (4, 3), (3, 2), (2, 1), (1, 0)])
def test_a_draft_fits_the_block_and_the_room_in_the_targets_ids(room: int, count: int) -> None:
    target, own = byte_level(256), byte_level()
    drafter = Translated(Fixed(own(" the quick brown")["input_ids"], 4), own)  # type: ignore[arg-type]
    drafter.translate_from(target)
    assert drafted(drafter, target("fox")["input_ids"], room) == list(target(" the")["input_ids"][:count])


# With a model


def test_a_used_drafter_drafts_what_a_new_one_does_and_reads_less() -> None:
    """Over rounds that accept any number of drafts, and go on with text that may change the ids of the end."""
    target, own, rng = embedded(), byte_level(), random.Random(2)
    model, rows, found, drafts = tiny.qwen3(vocab=330, max_position_embeddings=1024), [], [], 0
    used, fresh = (Translated(DraftModel(HfTarget(model.model, "draft"), 330, 6), own) for _ in range(2))
    tokens = target(TEXT[:150])["input_ids"]
    for drafter in (used, fresh):
        drafter.translate_from(target)
    used.start(model, torch.tensor([tokens[:1]]), None)
    again(used, tokens)
    feed = model.model.forward
    model.model.forward = lambda *args, **named: rows.append(named["input_ids"].shape[1]) or feed(*args, **named)
    for _ in range(25):
        rest = target(rng.choice(["lazy", " dog", "\n\n", "ß", "漢", "a", "  "]), add_special_tokens=False)["input_ids"]
        rows.clear()
        tokens = [*tokens, *found[: rng.randrange(4)], *rest]
        found = again(used, tokens)
        assert not rows or rows[0] < 40 < len(used._written.ids)
        assert found == drafted(fresh, tokens)
        drafts += len(found)
    assert drafts > 50


@pytest.fixture(scope="module")
def renumbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded draft model with its ids in the opposite order: another tokenizer, of the same pieces."""
    where: Path = tmp_path_factory.mktemp("draft") / "renumbered"
    shutil.copytree(EMBEDDED, where)
    body = json.loads((where / "tokenizer.json").read_text(encoding="utf-8"))
    last = len(body["model"]["vocab"]) - 1
    body["model"]["vocab"] = {piece: last - index for piece, index in body["model"]["vocab"].items()}
    for token in body["added_tokens"]:
        token["id"] = last - token["id"]
    (where / "tokenizer.json").write_text(json.dumps(body), encoding="utf-8")
    tensors = load_file(where / "model.safetensors")
    tables = {name: tensor.flip(0).contiguous() for name, tensor in tensors.items() if len(tensor) == last + 1}
    assert tables
    save_file(tensors | tables, where / "model.safetensors", metadata={"format": "pt"})
    for name in ("config.json", "generation_config.json"):
        body = json.loads((where / name).read_text(encoding="utf-8"))
        (where / name).write_text(json.dumps(body | {"eos_token_id": last - body["eos_token_id"]}), encoding="utf-8")
    return where


def assembled(folder: Path, *words: str) -> parts.Parts:
    return parts.assemble(settings_from({"drafter.name": str(folder), "device": "cpu", "dtype": "float64"}, [*words]))


def test_renumbered_ids_draft_what_the_same_ids_do(renumbered: Path) -> None:
    plain, loaded = assembled(EMBEDDED), assembled(renumbered, "+drafter.params.translate=true")
    drafter = loaded.arms[1].drafter
    assert isinstance(drafter, Translated)
    assert set(loaded.arms[1].arm.checkpoints or {}) == {"drafter"}
    target, ids = loaded.target, chat(loaded.tokenizer, "Name a colour of the sky, and say why it has it.")
    outputs = [tiny.Arm(arm).run(target, ids, 40, target.stop_ids) for arm in (plain.arms[1].drafter, drafter)]
    assert outputs[0].ids == outputs[1].ids == tiny.plain(target, ids, 40, target.stop_ids).ids
    assert [step.draft for step in outputs[0].rounds] == [step.draft for step in outputs[1].rounds]
    assert len(outputs[0].rounds) < 30


def chat(tokenizer: Any, question: str) -> torch.Tensor:
    messages = [{"role": "user", "content": question}]
    found: torch.Tensor = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")[
        "input_ids"
    ]
    return found


def test_another_tokenizer_is_refused_with_the_option_that_allows_it(renumbered: Path) -> None:
    with pytest.raises(MisfitError, match=r"different tokenizers: id 0 is .*drafter.params.translate=true$") as caught:
        assembled(renumbered)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("block_size", [2, 4, 8, 16])
def test_greedy_output_equals_generate_at_every_block_size(block_size: int) -> None:
    own, names = byte_level(), embedded()
    target, ids = tiny.qwen3(seed=block_size, vocab=len(names)), torch.tensor([names("The quick")["input_ids"]])
    drafter = Translated(DraftModel(tiny.qwen3(seed=9, vocab=330), 330, block_size), own)
    drafter.translate_from(names)
    output = tiny.Arm(drafter).run(target, ids, 24)
    assert output.ids == tiny.generated(target, ids, 24)
    assert sum(step.offered for step in output.rounds) > 5


@pytest.mark.parametrize("value", [1, "yes", None])
def test_translate_is_true_or_false(value: Any) -> None:
    with pytest.raises(UsageError, match=r"drafter.params.translate is .*: give true or false"):
        load(DrafterSettings("draft_model", str(EMBEDDED), params={"translate": value}), tiny.qwen3(layers=1), None)


def test_tokenizers_that_cannot_be_translated_are_refused() -> None:
    with pytest.raises(MisfitError, match=r"needs its tokenizer\.json"):
        Translated(Fixed([]), ByteTokenizer())  # type: ignore[arg-type]
    with pytest.raises(MisfitError, match="needs a target with a tokenizer"):
        Translated(Fixed([]), byte_level()).translate_from(ByteTokenizer())  # type: ignore[arg-type]

"""What drafters learn from: prompts of every kind, none of a suite; answers; and the target's own states on them."""

import random
from dataclasses import replace

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from xpress_bench.parts import load_tokenizer
from xpress_bench.settings import TargetSettings
from xpress_bench.suites import load_suite
from xpress_bench.train.distil import (
    PROSE_EVERY,
    Answer,
    AnswerRecipe,
    Wanted,
    _batches,
    answer_all,
    asked,
    chat,
    given,
    prompts,
    teach,
)
from xpress_bench.train.draft_model import shortened
from xpress_bench.train.tasks import TASKS
from xpress_bench.train.tasks.open_prompts import any_prompt

PROSE = ["The harbour was quiet, and nobody spoke of the storm. " * 40]


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(TargetSettings("embedded"))


@pytest.fixture(scope="module")
def model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=4096, hidden_size=32, intermediate_size=48, num_hidden_layers=5, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


def test_a_question_is_known_whatever_stands_around_it() -> None:
    assert asked("Who wrote Hamlet?\n\nAnswer in one word.") == "who wrote hamlet"
    assert asked("Who wrote Hamlet? Answer: VALUE") == asked("who wrote hamlet?")
    assert asked("Here is a profile.\n\nQuestion: How large is it?\n\nBe short.") == "question: how large is it"
    assert asked("Continue the text.\nIt was late.") == "continue the text."


def test_no_training_task_asks_what_a_suite_asks() -> None:
    evaluated = {asked(item.prompt) for item in load_suite("qa").items}
    rng = random.Random(0)
    assert {asked(task(rng, "train").prompt) for task in TASKS.values() for _ in range(500)} & evaluated == set()


def test_prompts_of_every_kind_and_none_that_is_excluded(tokenizer) -> None:
    recipe = AnswerRecipe(answers=300, long=0.02)
    found = prompts(tokenizer, PROSE, recipe, frozenset())
    assert {"open", "prose", "long", "translation", "arithmetic_steps"} <= {one.kind for one in found}
    assert min(len(one.ids) for one in found if one.kind == "long") >= recipe.long_from
    assert max(len(one.ids) for one in found) <= recipe.max_prompt
    wanted = {asked(any_prompt(random.Random(seed), PROSE)) for seed in range(2000)}
    only_open = AnswerRecipe(answers=20, open=1.0, prose=0.0, long=0.0)
    texts = [tokenizer.decode(one.ids) for one in prompts(tokenizer, PROSE, only_open, frozenset(wanted))]
    assert not {asked(text.split("user\n")[1].split("<|im_end|>")[0]) for text in texts} & wanted


def test_without_a_chat_template_the_prompt_is_plain_text(tokenizer) -> None:
    with_template = chat(tokenizer, "Say hello.")
    assert tokenizer.decode(with_template).endswith("assistant\n")
    plain = load_tokenizer(TargetSettings("embedded"))
    plain.chat_template = None
    assert plain.decode(chat(plain, "Say hello.")) == "Say hello."


def test_batches_hold_one_kind_and_no_more_tokens_than_asked() -> None:
    wanted = [Wanted([1] * length, 10, kind) for kind in "ab" for length in (5, 10, 20, 30)]
    batches = list(_batches(wanted, 60))
    assert [one for batch in batches for one in batch] == wanted
    for batch in batches:
        assert len({one.kind for one in batch}) == 1
        assert max(len(one.ids) + 10 for one in batch) * len(batch) <= 60


def test_greedy_answers_are_those_of_generate_one_by_one(tokenizer, model) -> None:
    recipe = AnswerRecipe(answers=6, open=0.0, prose=1.0, long=0.0, sampled=0.0)
    wanted = [replace(one, budget=8) for one in prompts(tokenizer, PROSE, recipe, frozenset())]
    answers = [answer for batch in answer_all(model.double(), tokenizer, wanted, recipe) for answer in batch]
    assert sorted(answer.prompt for answer in answers) == sorted(one.ids for one in wanted)
    for answer in answers:
        ids = torch.tensor([answer.prompt])
        alone = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, pad_token_id=0,
            eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        assert answer.answer == alone[0, len(answer.prompt) :].tolist()
    model.float()


def test_lessons_hold_the_targets_states_of_every_answer(model) -> None:
    answers = [Answer([5, 6, 7], [8, 9]), Answer([10], [11, 12, 13, 14])]
    lessons = teach(model, answers, (1, 3))
    for document in (0, 1):
        rows = lessons.documents == document
        ids = lessons.ids[rows]
        known = next(one for one in answers if one.prompt + one.answer == ids.tolist())
        assert lessons.is_answer[rows].tolist() == [False] * len(known.prompt) + [True] * len(known.answer)
        assert lessons.positions[rows].tolist() == list(range(len(ids)))
        output = model(ids[None], output_hidden_states=True)
        expected = torch.cat([output.hidden_states[2], output.hidden_states[4]], dim=-1)[0]
        torch.testing.assert_close(lessons.features[rows].float(), expected, atol=0.02, rtol=0.02)
        logits = lessons.final[rows].float() @ model.lm_head.weight.t()
        torch.testing.assert_close(logits, output.logits[0], atol=0.05, rtol=0.05)


def test_a_shortened_model_keeps_the_first_and_the_last_layer(model) -> None:
    short = shortened(model, 3)
    assert short.config.num_hidden_layers == 3
    for new, old in enumerate((0, 2, 4)):
        for one, other in zip(short.model.layers[new].parameters(), model.model.layers[old].parameters(), strict=True):
            assert torch.equal(one, other)
    assert torch.equal(short.lm_head.weight, model.lm_head.weight)


def test_a_shortened_model_of_all_layers_is_the_model(model) -> None:
    ids = torch.tensor([[5, 6, 7]])
    torch.testing.assert_close(shortened(model, 5)(ids).logits, model(ids).logits)


def test_texts_taken_as_they_stand_are_tasks_with_right_answers_and_prose(tokenizer) -> None:
    texts = given(tokenizer, PROSE, AnswerRecipe(given=40))
    prose = texts[::PROSE_EVERY]
    tasks = [one for one in texts if one not in prose]
    assert (len(prose), len(tasks)) == (4, 36)
    for one in tasks:
        assert tokenizer.decode(one.prompt).endswith("assistant\n")
        assert one.answer[-1] == tokenizer.eos_token_id
    sums = [text for one in tasks if "Answer: " in (text := tokenizer.decode(one.answer, skip_special_tokens=True))]
    assert sums
    for one in prose:
        assert (len(one.prompt), len(one.prompt + one.answer)) == (16, 256)
        assert tokenizer.decode(one.answer).strip()[:60] in PROSE[0]

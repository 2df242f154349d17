"""Presets of publications: each composes, and says what the publication says (methods.md 5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from xpress_bench import conf
from xpress_bench.analyse import published
from xpress_bench.config import PROTOCOLS, settings_from
from xpress_bench.errors import UsageError
from xpress_bench.records import Condition
from xpress_bench.settings import Settings
from xpress_bench.suites import hub

GREEDY, SAMPLED = Condition(0.0, "greedy"), Condition(1.0, "rejection")


def preset(name: str, *overrides: str) -> Settings:
    return settings_from({"profile": "standard"}, [f"protocol={name}", *overrides])


def sets(settings: Settings) -> dict[str, hub.Address]:
    return {(address := hub.parsed(part.strip())).path: address for part in settings.suite.split(",")}


def test_every_preset_can_be_asked_for():
    (folder,) = conf.__path__
    assert {file.stem for file in (Path(folder) / "protocol").glob("*.yaml")} == set(PROTOCOLS)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_preset_composes_and_is_recorded(name):
    settings = preset(name)
    assert settings.protocol == name
    assert Settings.from_json(settings.to_json()) == settings
    assert (settings.limit, settings.batch_size, settings.target.thinking) == (None, 1, False)
    if settings.suite.startswith(hub.PREFIX):
        assert all("prompt" in address.options for address in sets(settings).values())


def test_no_preset_is_the_default():
    assert settings_from({}, []).protocol is None


def test_xpress_readme():
    settings = preset("xpress-readme")
    assert (settings.target.name, settings.drafter.name) == ("Qwen/Qwen3-8B", "UIUC-SSAIL/Qwen3-8B-XPress-b16")
    assert (settings.refiner.name, settings.refiner.passes, settings.block_size) == ("auto", 6, 16)
    assert (settings.conditions(), settings.seeds) == ((GREEDY, SAMPLED), (0, 1, 2, 3, 4))
    assert (settings.max_new_tokens, settings.turns, settings.dtype) == (2048, 1, "bfloat16")
    assert settings.target.attn_implementation == "sdpa"
    splits = {path: address.options["split"] for path, address in sets(settings).items()}
    assert splits == {
        "openai/gsm8k": "test[:128]",
        "HuggingFaceH4/MATH-500": "test[:128]",
        "MathArena/aime_2025": "train",  # all 30
        "openai/openai_humaneval": "test[:128]",
        "google-research-datasets/mbpp": "test[:128]",
        "HuggingFaceH4/mt_bench_prompts": "train",  # all 80
    }


def test_dflash_paper():
    settings = preset("dflash-paper")
    assert (settings.target.name, settings.drafter.name) == ("Qwen/Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16")
    assert (settings.refiner.name, settings.block_size, settings.turns) == ("none", 16, None)
    assert settings.conditions() == (GREEDY, SAMPLED)


def test_dspark():
    settings = preset("dspark")
    assert settings.drafter.name == "deepseek-ai/dspark_qwen3_8b_block7"
    assert (settings.conditions(), settings.turns, settings.max_new_tokens) == ((SAMPLED,), 1, 2048)


def test_spec_bench():
    settings = preset("spec-bench")
    assert (settings.suite, settings.target.name) == ("question.jsonl", "lmsys/vicuna-7b-v1.3")
    assert (settings.drafter.name, settings.block_size) == ("prompt_lookup", 11)  # 10 drafts and the anchor
    assert (settings.conditions(), settings.launches, settings.dtype) == ((GREEDY,), 3, "float16")
    assert (settings.max_new_tokens, settings.turns) == (1024, 2)


@pytest.mark.parametrize(
    ("drafter", "overrides", "refiner"),
    [
        ("UIUC-SSAIL/Qwen3-8B-Markov-b16", ["refiner.passes=null"], "markov"),
        ("z-lab/Qwen3-8B-DFlash-b16", ["refiner.name=none", "refiner.passes=null"], None),
    ],
)
def test_the_other_columns_of_the_readme_are_one_override_away(drafter, overrides, refiner):
    settings = preset("xpress-readme", f"drafter.name={drafter}", *overrides)
    assert (settings.protocol, settings.refiner.passes) == ("xpress-readme", None)
    assert (drafter, refiner) in {(row.drafter, row.refiner) for row in published.load("xpress-readme").rows}


def test_a_flag_wins_over_a_preset_and_a_preset_over_a_profile():
    assert preset("xpress-readme", "limit=8", "temperatures=[0]").limit == 8
    assert preset("xpress-readme").launches == 1  # the profile says 3


def test_an_unknown_preset_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match="no protocol of that name; choose one of dflash-paper, dspark"):
        settings_from({}, ["protocol=xpress"])


def test_the_readme_s_preset_runs_its_mt_bench_prompts():
    asked = hub.parsed(published.load("xpress-readme").datasets["mt-bench"].suite or "")
    assert sets(preset("xpress-readme"))[asked.path] == asked

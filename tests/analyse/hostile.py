"""A journal whose every name is written by an enemy of whatever shows it."""

from dataclasses import replace

from runs import ARMS, Item, exact_study, failed, run

from xpress_bench.records import Replay

SCRIPT = "<script>alert(1)</script>"
ARM = "=_$\\frac{" + SCRIPT + '}"&%#~^|[x]\x1b[31m漢'
PROMPT = "=cmd|' /C calc'!A0,\n" + SCRIPT
CATEGORY = "*[9em] " + SCRIPT + "\\input{/etc/passwd}"


def hostile_run():
    """`draft` is called ARM, and p0 PROMPT, which failed once; the items of both are in `hostile_items`."""
    cells = [replace(c, prompt=PROMPT if c.prompt == "p0" else c.prompt) for c in exact_study()]
    cells = [replace(c, arm=ARM if c.arm == "draft" else c.arm) for c in cells]
    cells.append(failed(ARM, PROMPT, error=f"oom: {SCRIPT}", repeat=9, prompt_sha256="p0"))
    arms = [replace(arm, name=ARM, drafter=SCRIPT) if arm.name == "draft" else arm for arm in ARMS]
    journal = run(cells, arms=arms, replays=[Replay(PROMPT, 0, ARM, cells[0].condition, 0, 1, 2, 0.0, 0.0, "tie")])
    header = replace(
        journal.header, argv=("--suite", f"x'; {SCRIPT}"), run=f"../{SCRIPT}", machine={f"\x1b{SCRIPT}": 1}
    )
    return replace(journal, header=header)


def hostile_items():
    return [Item(PROMPT, category=CATEGORY), *(Item(f"p{i}", category=SCRIPT) for i in range(1, 32))]

from dataclasses import replace

import pytest
from runs import ARMS, COUPLED, exact_study, grid, run

from xpress_bench.analyse.summary import summarise
from xpress_bench.errors import UsageError
from xpress_bench.publish.together import together


def a_run(cells=None, name="r1", **header):
    journal = run(cells or exact_study())
    return summarise(replace(journal, header=replace(journal.header, run=name, **header)))


def test_a_row_for_each_arm_of_each_run_against_its_own_direct_arm():
    slow = [replace(c, latency_s=c.latency_s * (10 if c.arm == "direct" else 5)) for c in exact_study()]
    table = together([a_run(), a_run(slow, "r2")]).sections[0].table
    assert [row[:2] for row in table.rows] == [
        (arm, number) for number in "12" for arm in ("direct", "draft (dflash B=8)", "refine (dflash B=8 + xpress K=4)")
    ]
    at = table.columns.index("speed-up vs direct")
    assert [row[at].split(" ")[0] for row in table.rows] == ["1", "1.25", "2.00", "1", "2.50", "4.00"]
    assert {row[table.columns.index("identical")] for row in table.rows} == {"-", "32/32"}


def test_what_is_not_whole_comes_first():
    torn = replace(a_run(), complete=False)
    assert together([a_run(), torn]).sections[0].verdict.startswith("Not finished: run 2. ")


def test_another_machine_is_a_warning():
    other = a_run(target={"name": "embedded", "parameters": 7_100_000, "dtype": "float32", "device": "cuda:0"})
    lines = together([a_run(), other]).lines
    assert ("warning", "run 2 is of another machine than run 1: device") in lines


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"suite": {"name": "long", "sha256": "0" * 64, "items": 1, "selected": 1}}, "suite name 'qa' and 'long'"),
        ({"target": {"name": "other", "dtype": "float32"}}, "target weights 'embedded' and 'other'"),
        ({"target": {"name": "embedded", "dtype": "bfloat16"}}, "dtype 'float32' and 'bfloat16'"),
        ({"conditions": (COUPLED,)}, "conditions 'greedy' and 'temperature 0.7, coupled'"),
        ({"prompts": ("p0",)}, "different prompts of the suite, 32 and 1"),
        ({"arms": ARMS[1:]}, "run 'r2' has no arm 'direct'"),
    ],
)
def test_runs_that_say_nothing_of_each_other_are_refused(changes, told):
    other = a_run(name="r2")
    other = replace(other, header=replace(other.header, **changes))
    with pytest.raises(UsageError) as refused:
        together([a_run(), other])
    assert told in str(refused.value)


def test_every_shared_condition_is_a_section():
    both = [*exact_study(), *[replace(c, condition=COUPLED) for c in exact_study()]]
    headings = [one.heading for one in together([a_run(both), a_run(both, "r2")]).sections]
    assert headings == ["greedy", "temperature 0.7, coupled"]


def test_runs_of_which_not_all_share_a_condition():
    greedy, both = exact_study(), [*exact_study(), *[replace(c, condition=COUPLED) for c in exact_study()]]
    coupled = [replace(c, condition=COUPLED) for c in grid(lambda arm, p: 1.0, prompts=32)]
    with pytest.raises(UsageError, match="share no condition"):
        together([a_run(greedy), a_run(both, "r2"), a_run(coupled, "r3")])

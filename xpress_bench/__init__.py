"""xpress-bench: does a diffusion drafter, with or without parallel refinement, make a model faster and change nothing?

The pipeline in order, and where each part lives:

    draft    drafters/    proposes a block of tokens at once
    refine   refiners/    corrects the block in parallel
    verify   verifiers/   the target checks the block in one forward; decode.py is the loop that joins the three
    measure  measure/     runs every arm over a suite and writes the journal (records.py)
    analyse  analyse/     journal -> intervals, parity, verdict; numpy and scipy only
    publish  publish/     tables and reports

Importing this package imports no torch.
"""

__version__ = "0.1.0"

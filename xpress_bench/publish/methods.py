"""What every figure means, for the page of methods: the names of `analyse.metrics` and the words of reports."""

SYMBOLS = "T verify steps; p draft tokens offered, a accepted, c committed in one of them; N output ids of a request"
SUFFIXES = {
    "_step": "sum over sum, over all steps of all requests; the interval is clustered by prompt",
    "_prompt": "plain mean of one ratio per prompt",
    "_suite": "plain mean over categories of the mean of one ratio per prompt",
}
ACCEPTANCE = {
    "accepted_drafts_per_step": "Σa / T: accepted draft tokens per verify step, the target's own token not counted.",
    "tokens_per_step_nominal": "1 + Σa / T: the same with one token of the target for every step, the last included.",
    "tokens_per_step_committed": "Σc / T: tokens really added per verify step. The headline, called tokens/step.",
    "tokens_per_verify_incl_prefill": "N / T: the first id, which the prompt's forward gives, counts as well.",
    "draft_accept_rate": "Σa / Σp: share of the offered draft tokens that were accepted.",
    "slot_utilisation": "(Σa + T) / (Σp + T): share of the verified slots that became output, the anchor's included.",
    "drafted_share_of_output": "Σa / N: share of the output that came from the drafter.",
    "chunk_mean_specdec_bench": "Mean output of a forward, the prompt's included, a stop id not counted.",
    "tokens_per_target_forward": "N / (1 + T): output ids per forward of the target. Direct generation has exactly 1.",
    "accept_marginal": "Per draft position i: steps that accepted at least i drafts, of all steps.",
    "accept_conditional": "Per position i: of the steps that accepted i - 1 drafts or more, those that accepted i.",
    "accept_offered": "Per position i: of the steps that offered i drafts or more, those that accepted i.",
    "position_match": "Per position i: offered tokens that the output has there, whatever stands before them.",
}
SPEED = {
    "speedup_gmean_paired": "Geometric mean over prompts of direct's latency over that of the arm, paired inside a "
    "launch, prompt and seed. The headline, and what ranks are made of.",
    "speedup_median_paired": "Median over prompts of the same ratios.",
    "speedup_total_time": "All seconds of direct over all seconds of the arm.",
    "speedup_mean_tps": "Ratio of the mean ids per second of a whole request.",
    "speedup_mean_tpot": "Ratio of the mean seconds per output id after the first.",
}
LEVELS = {
    "runs": "Every request that the settings ask for succeeded.",
    "same output": "Under greedy and coupled sampling the ids are those of direct generation, but for ties of the "
    "target's logits that a replay found. Under rejection sampling the task score is not lower by the margin of the "
    "suite. Shown, refuted, or not shown: nothing is taken for granted.",
    "speed": "Faster or slower only where the paired test, adjusted for the number of comparisons, says so and the "
    "change is above 1 %.",
    "stable": "At most 5 % of the prompts got slower, few latencies are outliers, and repeats agree.",
}

"""Served engines: servers that speak OpenAI's protocol, each an arm of a run.

`address` says where one is, `client` streams a completion and times it, `engines` knows what each kind can be asked and
what it tells of its speculation, `counters` reads its Prometheus page, `servers` says what a server is and asks it.
Nothing here loads torch; `measure.served` makes cells of completions.
"""

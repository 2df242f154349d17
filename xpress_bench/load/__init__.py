"""Load on one engine: `arrivals` say when requests come, `loop` gives them to an `engine` under a `policy`.

The loop is one thread and knows neither a clock nor a model: an engine has both. `batch` decodes in this process,
`server` asks a served engine; tests have one of virtual time. `running` makes stages of it and writes them down.
"""

"""From a journal to numbers with intervals and one honest sentence: `summarise` and `verdict`. No torch."""

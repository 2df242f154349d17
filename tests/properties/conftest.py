"""Generated examples: the same ones in CI, new ones on a person's machine."""

import os

from hypothesis import settings

settings.register_profile("new", deadline=None, max_examples=50, database=None)
settings.register_profile("same", settings.get_profile("new"), derandomize=True)
settings.load_profile("same" if os.environ.get("CI") else "new")

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "analyse"))  # for runs.py, the fake journals

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # for runs.py, the fake journals

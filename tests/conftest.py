import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # for tiny.py, the small random models

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # in your own repository: `pip install -e .` instead

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # for fake.py, the engine of virtual time

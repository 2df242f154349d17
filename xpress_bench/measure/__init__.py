"""Measuring: clocks, memory, the machine, and the runner that writes the journal."""

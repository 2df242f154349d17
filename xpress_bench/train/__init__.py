"""The recipe that made the embedded target, drafter and refiner."""

"""Public checkpoint formats: where a checkpoint lies, what its config says, whether it fits a target, its tensors."""

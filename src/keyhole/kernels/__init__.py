"""All compiled code, and nothing else."""

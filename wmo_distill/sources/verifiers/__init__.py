"""The files of `verifiers` runs: `traces.jsonl`, prime-rl's rollouts, older `results.jsonl`."""

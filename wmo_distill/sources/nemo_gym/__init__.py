"""NeMo Gym: token captures, one set of files a rollout, and the rollouts files of its collector."""

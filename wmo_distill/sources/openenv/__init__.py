"""The files of OpenEnv's capture proxy: session documents, rollout results and saved runs."""

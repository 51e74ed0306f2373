"""How much of the real trials in fixtures/ is kept and named rightly, by us and by the reference.

python -m tests.bench.kept
"""

import json
from pathlib import Path

from wmo_distill import BuildOptions, load_trial_rollout_spans, read_trial

FIXTURES = Path(__file__).parents[2] / "fixtures"


def main() -> None:
    kept = reference_kept = named = reference_named = episodes = 0
    for expected in json.loads((FIXTURES / "expected.json").read_text()):
        trial = FIXTURES / "trials" / expected["path"]
        records = read_trial(trial, BuildOptions())
        kept += sum(s.sampled.size for r in records for s in r.spans if s.segment == 0)
        reference_kept += sum(s.sampled.size for s in load_trial_rollout_spans(trial))
        for record, wanted in zip(records, expected["episodes"], strict=True):
            episodes += 1
            named += record.stop_reason == wanted["stop_reason"]
            reference_named += record.reference_stop_reason == wanted["stop_reason"]
    print("| real trials in fixtures/ | sampled tokens of main chats | endings named rightly |")  # noqa: T201
    print("| --- | --- | --- |")  # noqa: T201
    print(f"| wmo-distill | {kept:,} | {named} of {episodes} |")  # noqa: T201
    print(f"| the reference's rules | {reference_kept:,} | {reference_named} of {episodes} |")  # noqa: T201


if __name__ == "__main__":
    main()

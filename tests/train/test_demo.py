"""The demonstration at its smallest, and that it would notice wrong data."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="`make test-trainers` installs it")

from tests.train.demo import DataError, Lesson, Plan, Round, checked, run, through_disk  # noqa: E402
from tests.train.model import Sampled, Size, Transformer, sample  # noqa: E402
from tests.train.toy import END, SAY, UP, VOCABULARY, WORDS, Task, answer, play  # noqa: E402

SMALL = Plan(
    teacher=Lesson(steps=100, careless=0.05),
    student=Lesson(steps=60, careless=0.5),
    rounds=2,
    tasks=32,
    attempts=2,
)


def test_kl_falls_over_two_rounds(tmp_path: Path) -> None:
    told: list[Round] = []
    rounds = run(SMALL, tmp_path, lambda _, one: told.append(one))
    first, last = rounds[0], rounds[-1]
    assert len(told) == len(rounds) == 3
    assert last.kl < 0.8 * first.kl
    assert all(one.datums > one.trials == 64 for one in rounds)


def test_data_that_was_not_sampled_is_reported(tmp_path: Path) -> None:
    student = Transformer(Size(vocabulary=VOCABULARY), seed=0)
    draws = torch.Generator().manual_seed(0)

    def policy(prompts: Sequence[list[int]]) -> list[Sampled]:
        return sample(student, prompts, end=END, cap=6, source=draws)

    source = random.Random(0)
    tasks = [Task.drawn(f"t{i}", source) for i in range(8)]
    episodes = play(tasks, 2, policy, source, 0.3)
    assert any(episode.breaks for episode in episodes)
    datums = through_disk(tmp_path, episodes, 2)
    assert checked(episodes, datums, student) <= 1e-4

    late = [replace(one, sampled_logprobs=np.roll(one.sampled_logprobs, 1)) for one in datums]
    with pytest.raises(DataError, match="log-probabilities"):
        checked(episodes, late, student)
    with pytest.raises(DataError, match="one a trial and one a break"):
        checked(episodes, datums[1:], student)
    silent = replace(datums[0], loss_mask=np.zeros_like(datums[0].loss_mask))
    with pytest.raises(DataError, match="trained tokens"):
        checked(episodes, [silent, *datums[1:]], student)


def test_the_toy_counts_as_it_says() -> None:
    said = [WORDS[i] if i < len(WORDS) else i - len(WORDS) for i in answer(UP, len(WORDS) + 13)]
    assert said == [14, 15, 16, "END"]
    task = Task("t", UP, ((4, 3, 2),))
    (episode,) = play([task], 1, lambda prompts: [Sampled([END], [0.0])], random.Random(0), 0.0)
    assert episode.calls[0].prompt == [0, UP, *(len(WORDS) + i for i in (4, 3, 2)), SAY]
    assert episode.reward == 0.0

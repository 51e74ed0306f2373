"""On-policy distillation of a small model through trial directories, shards and datums.

python -m tests.train.demo
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import wmo_distill
from tests.train.model import Sampled, Size, Transformer, next_logprobs, padded, sample, score
from tests.train.toy import END, VOCABULARY, Episode, Task, careless, play
from tests.train.trials import write_job
from wmo_distill.datums.dataset import iter_datums
from wmo_distill.datums.datum import TrainDatum
from wmo_distill.records import TrialRecord
from wmo_distill.tokens import TokenSpan

TOLERANCE = 1e-4
"""How far a recorded log-probability may be from the trainer's own."""


class DataError(Exception):
    """The data is not what the student sampled."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """How a model learns to speak before the demonstration, from answers made for it."""

    steps: int
    careless: float
    """The share of said tokens that are any."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to train, and on how much."""

    seed: int = 0
    teacher: Lesson = Lesson(steps=400, careless=0.05)
    student: Lesson = Lesson(steps=300, careless=0.5)
    lesson_batch: int = 32
    lesson_rate: float = 1e-2
    rounds: int = 10
    tasks: int = 64
    attempts: int = 4
    cap: int = 10
    """Tokens that a turn may sample."""
    breaks: float = 0.1
    """The share of later turns whose prompt does not extend what came before."""
    steps: int = 8
    """Optimizer steps a round."""
    batch: int = 128
    """Datums a step."""
    rate: float = 3e-3
    """Of the first round; it falls to 0 over the rounds."""
    clip: float = 5.0


@dataclass(frozen=True, slots=True)
class Round:
    """What a round's fresh samples showed, before the student was trained on them."""

    trials: int
    datums: int
    tokens: int
    """Sampled, and trained."""
    reward: float
    """The mean over trials."""
    error: float
    """The largest difference of a recorded log-probability from the student's own."""
    kl: float
    """Reverse KL in nats a token: the mean of student - teacher over sampled tokens."""


def run(plan: Plan, directory: Path, tell: Callable[[int, Round], None]) -> list[Round]:
    """Rounds of sample, write, build, score and train; one more shows the trained student.

    DataError where the datums do not hold each sampled token once, with the log-probability that
    the student gives it.
    """
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    teacher = taught(plan.teacher, plan, plan.seed + 1)
    student = taught(plan.student, plan, plan.seed + 2)
    optimizer = torch.optim.Adam(student.parameters(), lr=plan.rate)
    source, draws = random.Random(plan.seed), torch.Generator().manual_seed(plan.seed)

    def policy(prompts: Sequence[list[int]]) -> list[Sampled]:
        return sample(student, prompts, end=END, cap=plan.cap, source=draws)

    rounds: list[Round] = []
    for number in range(plan.rounds + 1):
        tasks = [Task.drawn(f"count-{number:02d}-{i:03d}", source) for i in range(plan.tasks)]
        episodes = play(tasks, plan.attempts, policy, source, plan.breaks)
        datums = through_disk(directory / f"round-{number:02d}", episodes, plan.attempts)
        error = checked(episodes, datums, student)
        answers = score(teacher, [datum.token_ids for datum in datums])
        rounds.append(_round(episodes, datums, answers, error))
        tell(number, rounds[-1])
        if number < plan.rounds:
            optimizer.param_groups[0]["lr"] = plan.rate * (1 - number / plan.rounds)
            advantaged, stats = wmo_distill.attach_advantages(
                datums, answers, clip=plan.clip, center=True
            )
            if stats.datums != len(datums):
                raise DataError(f"advantages: expected {len(datums)} datums, found {stats.datums}")
            train(student, optimizer, advantaged, plan, source)
    return rounds


def taught(lesson: Lesson, plan: Plan, seed: int) -> Transformer:
    """A transformer with weights of its own, trained by cross-entropy over what was said."""
    model = Transformer(Size(vocabulary=VOCABULARY), seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=plan.lesson_rate)
    source = random.Random(seed)
    speaker = careless(source, lesson.careless, plan.cap)
    for _ in range(lesson.steps):
        tasks = [Task.drawn("read", source) for _ in range(plan.lesson_batch)]
        records = [_record(one) for one in play(tasks, 1, speaker, source, plan.breaks)]
        batch, _ = wmo_distill.build_datums(records, purpose="sft")
        ids = padded([datum.token_ids for datum in batch], torch.int64)
        mask = padded([datum.loss_mask for datum in batch], torch.float32)[:, 1:]
        loss = -(next_logprobs(model, ids) * mask).sum() / mask.sum()
        _step(optimizer, loss)
    return model


def _record(episode: Episode) -> TrialRecord:
    spans = [
        TokenSpan(number, call.prompt, call.sampled.ids, call.sampled.logprobs)
        for number, call in enumerate(episode.calls)
    ]
    name = episode.task.name
    return TrialRecord(episode_id=name, trial_name=name, spans=tuple(spans))


def through_disk(directory: Path, episodes: Sequence[Episode], attempts: int) -> list[TrainDatum]:
    """Episodes to trial directories, to a dataset, to datum shards, to datums."""
    write_job(directory / "jobs" / directory.name, episodes, attempts)
    wmo_distill.build([directory / "jobs"], directory / "dataset")
    wmo_distill.build_datum_shards(directory / "dataset", directory / "datums")
    return [row.datum for row in iter_datums(directory / "datums")]


def checked(
    episodes: Sequence[Episode], datums: Sequence[TrainDatum], student: Transformer
) -> float:
    """The largest difference of a recorded log-probability from the student's own.

    DataError above TOLERANCE, or where sequences or trained tokens are not as many as were sampled.
    """
    sequences = len(episodes) + sum(episode.breaks for episode in episodes)
    if len(datums) != sequences:
        raise DataError(
            f"datums: expected {sequences}, one a trial and one a break, found {len(datums)}"
        )
    tokens = sum(episode.sampled_tokens for episode in episodes)
    trained = sum(datum.loss_tokens for datum in datums)
    if trained != tokens:
        raise DataError(f"trained tokens: expected the {tokens} that were sampled, found {trained}")
    own = score(student, [datum.token_ids for datum in datums])
    error = max(
        float(np.abs(datum.sampled_logprobs - values)[datum.loss_mask].max())
        for datum, values in zip(datums, own, strict=True)
    )
    if not error <= TOLERANCE:
        raise DataError(
            f"recorded log-probabilities: expected the student's own within {TOLERANCE}, "
            f"found one that differs by {error}"
        )
    return error


def train(
    student: Transformer,
    optimizer: torch.optim.Optimizer,
    datums: Sequence[TrainDatum],
    plan: Plan,
    source: random.Random,
) -> None:
    """Steps of the importance-sampling loss, each on a batch drawn from the datums."""
    for _ in range(plan.steps):
        batch = source.sample(datums, min(plan.batch, len(datums)))
        ids = padded([datum.token_ids for datum in batch], torch.int64)
        # Entry j of the new log-probabilities is that of token j + 1: the others lose their first.
        mask = padded([datum.loss_mask for datum in batch], torch.float32)[:, 1:]
        sampled = padded([datum.sampled_logprobs for datum in batch], torch.float32)[:, 1:]
        advantages = padded([_advantages(datum) for datum in batch], torch.float32)[:, 1:]
        ratio = (next_logprobs(student, ids) - sampled).exp()
        loss = -(ratio * advantages * mask).sum() / mask.sum()
        _step(optimizer, loss)


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _advantages(datum: TrainDatum) -> NDArray[np.float64]:
    if datum.advantages is None:
        raise DataError(f"{datum.trial_name}: expected advantages, found none")
    return datum.advantages


def _round(
    episodes: Sequence[Episode],
    datums: Sequence[TrainDatum],
    answers: Sequence[NDArray[np.float64]],
    error: float,
) -> Round:
    differences = np.concatenate(
        [
            (datum.sampled_logprobs - answer)[datum.loss_mask]
            for datum, answer in zip(datums, answers, strict=True)
        ]
    )
    return Round(
        trials=len(episodes),
        datums=len(datums),
        tokens=differences.size,
        reward=float(np.mean([episode.reward for episode in episodes])),
        error=error,
        kl=float(differences.mean()),
    )


def fell(rounds: Sequence[Round]) -> bool:
    """Whether the last KL is less than half of the first."""
    return rounds[-1].kl < rounds[0].kl / 2


def main() -> int:
    began = time.monotonic()
    print("round  trials  datums  tokens  reward  logprob error  KL (nats a token)")  # noqa: T201

    def tell(number: int, one: Round) -> None:
        print(  # noqa: T201
            f"{number:5}  {one.trials:6}  {one.datums:6}  {one.tokens:6}  {one.reward:6.3f}  "
            f"{one.error:13.1e}  {one.kl:17.4f}",
            flush=True,
        )

    with tempfile.TemporaryDirectory() as directory:
        try:
            rounds = run(Plan(), Path(directory), tell)
        except DataError as error:
            print(error, file=sys.stderr)  # noqa: T201
            return 1
    first, last = rounds[0].kl, rounds[-1].kl
    word = "fell" if fell(rounds) else "did not fall by half"
    print(  # noqa: T201
        f"reverse KL of the student to the teacher {word}: {first:.4f} to {last:.4f}; "
        f"{time.monotonic() - began:.0f} s"
    )
    return 0 if fell(rounds) else 1


if __name__ == "__main__":
    sys.exit(main())

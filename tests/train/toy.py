"""A toy environment of counting, and episodes played in it.

The agent is given UP or DOWN, then shown screens of numbers; to each it says the numbers that
follow the last one shown, up to the next multiple of eight, and END. UP after 13: 14 15 16 END.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.train.model import Sampled

BOS, UP, DOWN, SAY, END, RIGHT, WRONG, CUT = range(8)
WORDS = ("BOS", "UP", "DOWN", "SAY", "END", "RIGHT", "WRONG", "CUT")
NUMBERS = 56
VOCABULARY = len(WORDS) + NUMBERS
ROW = 8
SCREEN = 3

Policy = Callable[[Sequence[list[int]]], list[Sampled]]
"""A completion for each prompt."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked in an episode: one screen a turn."""

    name: str
    direction: int
    screens: tuple[tuple[int, ...], ...]

    @classmethod
    def drawn(cls, name: str, source: random.Random) -> "Task":
        """Three to five turns."""
        screens = tuple(
            tuple(source.randrange(NUMBERS) for _ in range(SCREEN))
            for _ in range(source.randint(3, 5))
        )
        return cls(name, source.choice((UP, DOWN)), screens)


@dataclass(frozen=True, slots=True)
class Call:
    """One turn as the server saw it."""

    prompt: list[int]
    sampled: Sampled
    right: bool


@dataclass(slots=True)
class Episode:
    """One attempt at a task."""

    task: Task
    attempt: int
    calls: list[Call] = field(default_factory=list)
    breaks: int = 0

    @property
    def reward(self) -> float:
        """The share of turns that were answered right."""
        return sum(call.right for call in self.calls) / len(self.calls)

    @property
    def sampled_tokens(self) -> int:
        return sum(len(call.sampled.ids) for call in self.calls)

    def prompt(self, turn: int, *, cut: bool) -> list[int]:
        """All that was said so far and the next screen; after a `cut` the screen alone."""
        opening = [BOS, self.task.direction]
        if turn and not cut:
            last = self.calls[-1]
            history = [*last.prompt, *last.sampled.ids, RIGHT if last.right else WRONG]
        else:
            history = [*opening, CUT] if cut else opening
        return [*history, *(len(WORDS) + number for number in self.task.screens[turn]), SAY]


def follows(direction: int, token: int) -> int:
    """What is right to say after a number; after a word, END."""
    if token < len(WORDS):
        return END
    step = 1 if direction == UP else -1
    return len(WORDS) + (token - len(WORDS) + step) % NUMBERS


def ends(token: int) -> bool:
    """Whether END follows a token that was said."""
    return token < len(WORDS) or (token - len(WORDS)) % ROW == 0


def answer(direction: int, shown: int) -> list[int]:
    """What is right to say after a screen whose last token is `shown`."""
    said = [follows(direction, shown)]
    while not ends(said[-1]):
        said.append(follows(direction, said[-1]))
    return [*said, END]


def play(
    tasks: Sequence[Task], attempts: int, policy: Policy, source: random.Random, breaks: float
) -> list[Episode]:
    """Every task so many times; at a share `breaks` of the later turns the history is cut."""
    episodes = [Episode(task, attempt) for task in tasks for attempt in range(attempts)]
    for turn in range(max((len(task.screens) for task in tasks), default=0)):
        live = [episode for episode in episodes if turn < len(episode.task.screens)]
        cuts = [turn > 0 and source.random() < breaks for _ in live]
        prompts = [one.prompt(turn, cut=cut) for one, cut in zip(live, cuts, strict=True)]
        for episode, prompt, cut, sampled in zip(live, prompts, cuts, policy(prompts), strict=True):
            wanted = answer(episode.task.direction, prompt[-2])
            episode.calls.append(Call(prompt, sampled, sampled.ids == wanted))
            episode.breaks += cut
    return episodes


def careless(source: random.Random, share: float, cap: int) -> Policy:
    """Says what is right, but for a `share` of tokens that are any; counts on from those too."""

    def say(prompt: list[int]) -> list[int]:
        # A prompt is BOS and the direction, and ends in its last number and SAY.
        direction, last = prompt[1], prompt[-2]
        said: list[int] = []
        while len(said) < cap and END not in said:
            wanted = END if said and ends(last) else follows(direction, last)
            last = source.randrange(VOCABULARY) if source.random() < share else wanted
            said.append(last)
        return said

    def policy(prompts: Sequence[list[int]]) -> list[Sampled]:
        said = [say(prompt) for prompt in prompts]
        return [Sampled(ids, [0.0] * len(ids)) for ids in said]

    return policy


def text(ids: Sequence[int]) -> str:
    """Ids as words."""
    return " ".join(WORDS[i] if i < len(WORDS) else str(i - len(WORDS)) for i in ids)

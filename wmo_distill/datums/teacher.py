"""A teacher's scores put on datums as they stream by."""

from dataclasses import replace
from typing import Protocol

from wmo_distill.datums.advantages import AdvantageSums, TeacherRule, teacher_part, with_advantages
from wmo_distill.datums.datum import TrainDatum
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.table import datum_id
from wmo_distill.tokens import Logprobs


class Scores(Protocol):
    """Where scores are kept."""

    def logprobs(self, datum_id: str, teacher: str) -> Logprobs | None:
        """Log-probability of each token, NaN at position 0."""
        ...

    def teachers(self) -> dict[str, int]: ...


class Teacher:
    """Gives datums their teacher's log-probabilities, and the advantages that follow from them.

    A datum without a score that fits keeps neither, nor the reward's part: half an advantage
    would train another thing.
    """

    def __init__(self, scores: Scores, options: DatumOptions, *, shift: float = 0.0) -> None:
        assert options.teacher is not None
        self.name = options.teacher
        self.sums = AdvantageSums(shift)
        self._scores = scores
        self._rule = TeacherRule(
            beta=options.beta, clip=options.clip, discount=options.teacher_discount
        )

    def score(self, datum: TrainDatum) -> TrainDatum:
        logprobs = self._scores.logprobs(datum_id(datum), self.name)
        part = teacher_part(datum, logprobs, self._rule, self.sums)
        if part is None:
            return replace(datum, advantages=None)
        scored = replace(datum, teacher_logprobs=logprobs)
        return with_advantages(scored, part - self.sums.shift)

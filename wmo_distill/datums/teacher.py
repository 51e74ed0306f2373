"""Scores of a teacher, or of the student asked again, put on datums as they stream by."""

from dataclasses import replace
from typing import Protocol

from wmo_distill.arrays import Logprobs
from wmo_distill.datums.advantages import AdvantageSums, TeacherRule, teacher_part, with_advantages
from wmo_distill.datums.datum import TrainDatum
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.table import datum_id


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


class Rescorer:
    """Gives datums the student's re-scored log-probabilities in addition to the recorded ones.

    exp(rescored - recorded) is the importance weight of a token; advantages do not change.
    """

    def __init__(self, scores: Scores, name: str) -> None:
        self._scores, self._name = scores, name
        self.found = 0
        """Datums that were given theirs."""

    def put(self, datum: TrainDatum) -> TrainDatum:
        logprobs = self._scores.logprobs(datum_id(datum), self._name)
        if logprobs is None or logprobs.size != datum.token_ids.size:
            return datum
        self.found += 1
        return replace(datum, rescored_logprobs=logprobs)

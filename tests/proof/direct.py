"""The model as a scorer without a server between, for many runs."""

from dataclasses import dataclass

from tests.proof.lm import LanguageModel
from wmo_distill.arrays import Ids
from wmo_distill.scorers.scorer import Score, ScoreError, ScoreFault


@dataclass
class Direct:
    """A scorer that lists at most `most` candidates and knows nothing at `null_at`."""

    model: LanguageModel
    most: int = 1000
    null_at: tuple[int, ...] = ()
    tokenizer: str | None = None

    async def score(self, token_ids: Ids, top_k: int) -> Score:
        if top_k > self.most:
            raise ScoreError(ScoreFault.REFUSED, f"more than {self.most} candidates")
        ids = token_ids.tolist()
        rows = self.model.rows(ids)
        values = self.model.logprobs(ids)
        values[list(self.null_at)] = float("nan")
        if not top_k:
            return Score(values)
        top = [
            None
            if row is None
            else [(int(t), float(row[t])) for t in (-row).argsort(kind="stable")[:top_k]]
            for row in rows
        ]
        return Score(values, top)

    async def close(self) -> None:
        pass

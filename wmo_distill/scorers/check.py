"""A sample of sequences scored again by the student's own server, and compared with the records."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from wmo_distill.datums.dataset import DatumRow, iter_datums
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.progress import Listener, Progress
from wmo_distill.scorers.advise import ACTIONS, cannot_tell
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.calls import Calls
from wmo_distill.scorers.compared import (
    Claim,
    Compared,
    claim_of,
    comparable,
    compared,
    implausible,
    joined,
)
from wmo_distill.scorers.fault import claimed_values, find_fault
from wmo_distill.scorers.filters import FilterOrder
from wmo_distill.scorers.fit import apply_params
from wmo_distill.scorers.options import CheckOptions, Noise
from wmo_distill.scorers.report import (
    CheckReport,
    by_name,
    by_position,
    by_turn,
    spread,
    worst,
)
from wmo_distill.scorers.residue import listed_share
from wmo_distill.scorers.run import ScoreParts, refuse_other_tokenizer
from wmo_distill.scorers.sample import (
    episode_name,
    episode_names,
    sampled_rows,
    version_name,
    version_names,
)
from wmo_distill.scorers.scorer import Score, ScoreError, ScoreFault, Scorer
from wmo_distill.scorers.tolerance import TOLERANCES, Tolerance, step_of
from wmo_distill.scorers.verdict import Finding, Verdict

# More candidates are asked for where fewer do not tell: this many times more, up to so many, for
# the shortest sequences, up to so many candidates in all.
_MORE = 5
_MOST_CANDIDATES = 1000
_MOST_SEQUENCES = 32
_MOST_VALUES = 20_000_000


@dataclass(slots=True)
class _Answers:
    """What the server answered so far."""

    pieces: dict[int, Compared] = field(default_factory=dict)
    """By the number of the row."""
    faults: dict[ScoreFault, int] = field(default_factory=dict)
    first_found: str = ""


def check_logprobs(
    datums: Path | str,
    scorer: Scorer,
    options: CheckOptions | None = None,
    *,
    progress: Listener | None = None,
    **changes: Any,
) -> CheckReport:
    """Score a sample of the sequences again and name what is wrong with their log-probabilities.

    `changes` are fields of `CheckOptions`. The scorer must answer with the model's own distribution
    (raw, temperature 1), which prompt log-probabilities are. UsageError for datums with nothing to
    check, DistillError where nothing could be scored.
    """
    options = CheckOptions.of(options, **changes)
    top_k, noise, name = options.top_k, options.noise, options.name or "student"
    rows = sampled_rows(iter_datums(datums), options.sample, options.seed)
    if not rows:
        raise UsageError(
            f"{datums}: expected sequences with log-probabilities, found none; "
            "build with trials that hold them (see `wmo-distill doctor`)"
        )
    refuse_other_tokenizer(Path(datums), scorer.tokenizer)
    claim = claim_of(rows)
    kept = None if options.store is None else ScoreCache(options.store)
    calls = Calls(scorer, options.concurrency, options.attempts, options.wait)
    asking = _Asking(rows, calls, progress)
    if claim.params.top_k is not None and top_k:
        top_k = max(top_k, claim.params.top_k)
    answers = asking.ask(range(len(rows)), top_k, kept, name)
    if not answers.pieces and set(answers.faults) == {ScoreFault.REFUSED}:
        fewer = asking.fewer(top_k)
        if fewer < top_k:
            top_k = fewer
            answers = asking.ask(range(len(rows)), top_k, kept, name)
    if not answers.pieces:
        raise DistillError(
            f"scorer: expected answers, found none ({answers.first_found}); see to the server"
        )
    tokens = joined(list(answers.pieces.values()))
    if not len(tokens):
        raise DistillError("scorer: expected numbers at the trained tokens, found none")
    allowed = TOLERANCES[noise]
    step = step_of(tokens.recorded)
    mean = allowed.mean if options.tolerance is None else options.tolerance
    if step is not None and step < 1.0:
        mean += step / 4.0  # what rounding adds on average
    allowed = Tolerance(mean, allowed.outside)
    finding = find_fault(tokens, claim, allowed)
    while top_k and _more_may_tell(finding, tokens, claim) and top_k < _MOST_CANDIDATES:
        chosen, wider = asking.more(answers, min(_MORE * top_k, _MOST_CANDIDATES))
        further = asking.ask(chosen, wider) if chosen and wider > top_k else _Answers()
        if not further.pieces:
            break
        top_k, tokens = wider, joined(list(further.pieces.values()))
        answers.pieces |= further.pieces
        finding = find_fault(tokens, claim, allowed)
    report = _report(finding, joined(list(answers.pieces.values())), rows, claim)
    notes = cannot_tell(finding, tokens, claim, top_k)
    return report.model_copy(
        update={
            "cannot_tell": notes,
            "noise": noise,
            "tolerance": allowed.mean,
            "rounded_to": step,
            "top_k": top_k,
            "implausible": sum(implausible(row) for row in rows),
            "faults": answers.faults,
            "stored": None if kept is None else len(answers.pieces),
        }
    )


def _more_may_tell(finding: Finding, tokens: Compared, claim: Claim) -> bool:
    """Whether more candidates could lead to another verdict."""
    if listed_share(tokens) > 0.95:
        return False
    if finding.drawn is not None and finding.verdict is not Verdict.AGREES:
        return False
    if finding.verdict in (Verdict.UNEXPLAINED, Verdict.WEIGHTS):
        return True
    if finding.params is not None and finding.drawn is None:
        # Fitted to the tokens whose value is known: where many are not, others may be nearer.
        orders = finding.orders or (FilterOrder.TOP_K_FIRST,)
        return bool(np.isfinite(apply_params(tokens, finding.params, orders[0])).mean() < 0.9)
    claimed, _ = claimed_values(tokens, claim)
    return bool(finding.verdict is Verdict.AGREES and np.isfinite(claimed).mean() < 0.5)


@dataclass(slots=True)
class _Asking:
    rows: list[DatumRow]
    calls: Calls
    progress: Listener | None

    def fewer(self, top_k: int) -> int:
        """So many candidates as the server allows for the first sequence; `top_k` if none."""
        allowed = (fewer for fewer in (20, 5, 1, 0) if fewer < top_k and self._answers(0, fewer))
        return next(allowed, top_k)

    def more(self, answers: _Answers, wider: int) -> tuple[list[int], int]:
        """The sequences to ask again, the shortest first, and how many candidates to ask for."""
        ranked = sorted(answers.pieces, key=lambda one: self.rows[one].datum.token_ids.size)
        chosen: list[int] = []
        values = 0
        for row in ranked[:_MOST_SEQUENCES]:
            values += wider * self.rows[row].datum.token_ids.size
            if chosen and values > _MOST_VALUES:
                break
            chosen.append(row)
        size = self.rows[chosen[0]].datum.token_ids.size
        if wider * size > _MOST_VALUES or not self._answers(chosen[0], wider):
            return [], wider
        return chosen, wider

    def _answers(self, row: int, top_k: int) -> bool:
        """Whether the server answers with so many candidates."""
        found: list[Score | ScoreError] = []
        asked = self.rows[row].datum.token_ids, comparable(self.rows[row])
        self.calls.make([(row, *asked)], top_k, lambda _, answer: found.append(answer))
        return isinstance(found[0], Score)

    def ask(
        self,
        chosen: Sequence[int],
        top_k: int,
        store: ScoreCache | None = None,
        name: str = "",
    ) -> _Answers:
        """The answers for the chosen rows, in their order; kept in `store`."""
        answers = _Answers()
        parts = None if store is None else ScoreParts(store, name, top_k)
        runs = np.cumsum([0, *(len(row.datum.call_starts) for row in self.rows)]).tolist()
        episodes = episode_names(self.rows)
        versions = version_names(self.rows)
        done = 0

        def take(number: int, answer: Score | ScoreError) -> None:
            nonlocal done
            row = self.rows[number]
            if isinstance(answer, ScoreError):
                answers.faults[answer.fault] = answers.faults.get(answer.fault, 0) + 1
                answers.first_found = answers.first_found or str(answer)
            else:
                # The candidates of all need not be held.
                answers.pieces[number] = compared(
                    row,
                    answer,
                    sequence=number,
                    run=runs[number],
                    episode=episodes.index(episode_name(row)),
                    version=versions.index(version_name(row)) if version_name(row) else -1,
                )
                if parts is not None:
                    parts.add(row.datum_id, answer)
            done += 1
            if self.progress is not None:
                outcomes = {str(fault): n for fault, n in answers.faults.items()}
                self.progress(
                    Progress(
                        done=done,
                        total=len(chosen),
                        unit="sequences",
                        outcomes={"scored": len(answers.pieces)} | outcomes,
                    )
                )

        asked = ((n, self.rows[n].datum.token_ids, comparable(self.rows[n])) for n in chosen)
        with nullcontext() if store is None else store.writing():
            self.calls.make(asked, top_k, take, *([] if parts is None else [parts.close]))
        answers.pieces = {n: answers.pieces[n] for n in chosen if n in answers.pieces}
        return answers


def _report(finding: Finding, tokens: Compared, rows: list[DatumRow], claim: Claim) -> CheckReport:
    claimed, _ = claimed_values(tokens, claim)
    difference = tokens.recorded - claimed
    # Where the claim gives no value, the plain difference is better than none.
    shown = difference if np.isfinite(difference).any() else tokens.recorded - tokens.rescored
    whole = spread("all", shown)
    assert whole is not None
    episodes, versions = episode_names(rows), version_names(rows)
    several = len(versions) > 1
    clues = list(finding.clues)
    if several:
        clues.append(f"{len(versions)} policy versions are in the sample: {', '.join(versions)}")
    fitted = None if finding.params is None else str(finding.params)
    return CheckReport(
        verdict=finding.verdict,
        action=ACTIONS[finding.verdict],
        clues=clues + ([finding.detail] if finding.detail and fitted is not None else []),
        sequences=int(np.unique(tokens.sequence).size),
        tokens=len(tokens),
        mean_abs_difference=whole.mean_abs_difference,
        mean_difference=whole.mean_difference,
        k3=whole.k3,
        outside=whole.outside,
        quantiles=whole.quantiles,
        claimed=str(claim),
        fitted=fitted if fitted is not None else finding.detail or None,
        orders=list(finding.orders),
        shift=finding.shift,
        noise=Noise.BF16,
        tolerance=0.0,
        top_k=0,
        not_compared=int((~np.isfinite(difference)).sum()),
        by_turn=by_turn(tokens, shown),
        by_position=by_position(tokens, shown),
        by_version=by_name(shown, tokens.version, versions) if several else [],
        worst_episodes=worst(shown, tokens.episode, episodes),
        episodes=[episodes[one] for one in finding.episodes],
    )

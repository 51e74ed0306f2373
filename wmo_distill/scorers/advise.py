"""What to do about a verdict, and what a check could not see."""

import numpy as np

from wmo_distill.scorers.compared import Claim, Compared
from wmo_distill.scorers.draws import resolution
from wmo_distill.scorers.fault import claimed_values
from wmo_distill.scorers.residue import listed_share
from wmo_distill.scorers.verdict import Finding, Verdict

ACTIONS = {
    Verdict.AGREES: "nothing to do: the recorded log-probabilities are this model's, as far as "
    "this check can see",
    Verdict.TEMPERATURE: "declare the temperature (`build --declare temperature=...`): it is not "
    "what the rows say",
    Verdict.FILTERED: "declare the filter, or turn it off in the sampler: it is not what the rows "
    "say",
    Verdict.PENALTY: "declare the penalty, or turn it off in the sampler: tokens were drawn with a "
    "repetition, presence or frequency penalty",
    Verdict.PROCESSED: "declare logprob_mode=processed and the fitted parameters, or have the "
    "sampler record raw log-probabilities",
    Verdict.RAW: "declare logprob_mode=raw: the values are from before temperature and filters",
    Verdict.UNFILTERED: "train with values after temperature alone, or have the sampler record "
    "others: they are from after temperature and before filters, as SGLang reports them",
    Verdict.UNITS: "convert the recorded values: they are no natural logarithms of probabilities",
    Verdict.FILLER: "do not train on this: a constant was recorded in place of log-probabilities",
    Verdict.SHIFTED: "repair the recorder, do not train on this: values are recorded next to a "
    "neighboring token",
    Verdict.SOME_EPISODES: "leave out the listed episodes, or find out what sampled them: all "
    "others agree",
    Verdict.MIXED_VERSIONS: "check each policy version against its own server: some versions agree "
    "with this one, others do not",
    Verdict.TEMPLATE: "compare recorded prompts with what the server received: first turns agree "
    "and later ones do not, as when a chat template drops thinking",
    Verdict.TOKENIZER: "check the tokenizer and the model's name: the recorded ids make no sense "
    "to this model",
    Verdict.WEIGHTS: "check which checkpoint is served: the values are of similar but other "
    "weights, a stale or newer policy, or another precision",
    Verdict.UNEXPLAINED: "do not trust these log-probabilities yet: no one fault explains them, or "
    "too little was compared; see the clues, raise --sample or --top-k",
}


def cannot_tell(finding: Finding, tokens: Compared, claim: Claim, top_k: int) -> list[str]:
    """What could not be seen in this check."""
    found = []
    if not claim.temperature_stated:
        found.append("the rows state no temperature: 1 was taken")
    if claim.mode == "unknown":
        found.append("the rows do not state logprob_mode: raw was taken")
    if claim.others:
        names = ", ".join(claim.others)
        found.append(f"whether tokens were drawn with {names}, as stated: it cannot be computed")
    if not tokens.top.shape[1]:
        found.append(
            "temperature, top-k, top-p, min-p and penalties of the draws: the scorer lists no "
            "candidates"
        )
        return found
    claimed, _ = claimed_values(tokens, claim)
    share = float(np.isfinite(claimed).mean())
    if share < 0.99:
        found.append(
            f"{1 - share:.0%} of the tokens: {top_k} candidates hold too little mass for their "
            "values after temperature and filters (vLLM allows more with --max-logprobs)"
        )
    if finding.verdict is not Verdict.AGREES:
        if listed_share(tokens) < 0.5:
            found.append(
                f"temperatures and filters of most tokens: {top_k} candidates hold too little mass"
            )
        return found
    reach = resolution(tokens, claim.params)
    if reach is not None:
        apart, mass = reach
        found.append(
            f"a temperature within {apart:.2g} of {claim.params.temperature:g}, or a filter that "
            f"cuts less than {mass:.2g} of the mass: raise --sample to see"
        )
    if finding.drawn is not None:
        found.append(
            "a repetition, presence or frequency penalty that makes repeated tokens less than "
            f"{finding.drawn.rarest:.0%} rarer"
        )
    if len(finding.orders) > 1:
        orders = ", ".join(finding.orders)
        found.append(f"in which order the filters were applied: {orders} fit alike")
    found.append("the prompts' own log-probabilities: only sampled tokens are compared")
    return found

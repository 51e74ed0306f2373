"""`wmo-distill check-logprobs`: do the recorded log-probabilities belong to this model?"""

from wmo_distill.cli.flags import Datums
from wmo_distill.cli.output import Writing, end
from wmo_distill.cli.scoring import Kind, Server, scorer_of
from wmo_distill.errors import stop_says
from wmo_distill.operation import option
from wmo_distill.scorers.options import CheckOptions


class Student(Server):
    scorer: Kind = option(Kind.VLLM, "What serves the student.")


def check_logprobs(
    datums: Datums, server: Student, options: CheckOptions, printing: Writing
) -> None:
    """Re-score a sample with the student's own server; name the fault, if any (exit code 1)."""
    from wmo_distill.errors import UsageError
    from wmo_distill.report.check import render_check
    from wmo_distill.scorers.check import check_logprobs as check

    if options.name is not None and options.store is None:
        raise UsageError("--name: expected --store too, found none; it names what --store keeps")
    options = CheckOptions.of(
        options,
        name=options.name or server.model,
        top_k=0 if server.scorer is Kind.ECHO else options.top_k,
    )
    store = options.store
    if store is not None and options.name is None:
        raise UsageError("--name: expected the name that --store keeps values under, found none")
    scorer = scorer_of(server)
    kept = "nothing is kept" if store is None else f"the scores so far are kept in {store}"
    with stop_says(lambda: kept), printing.writing(store) as progress:
        report = check(datums, scorer, options, progress=progress)
    printing.put(report, lambda: render_check(report))
    if report.verdict != "agrees":
        end(1, f"{datums}: expected log-probabilities of this model, found: {report.verdict}")

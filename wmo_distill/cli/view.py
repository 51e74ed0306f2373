"""`wmo-distill view`: episodes token by token, in a browser on this machine."""

from pathlib import Path

from wmo_distill.cli.flags import Dataset
from wmo_distill.cli.output import Logged, put, say
from wmo_distill.cli.show import TextOptions
from wmo_distill.operation import option


class ViewOptions(TextOptions):
    datums: Path | None = option(
        None, "Training sequences of this dataset: masks, advantages, other models.", "DATUMS"
    )
    port: int = option(
        0, "Port of 127.0.0.1 to listen on; 0: any that is free.", "N", ge=0, le=65535
    )
    where: str = option(
        "", "Begin with the episodes of an SQL expression over the columns.", "EXPRESSION"
    )
    open: bool = option(True, "Do not open a browser.")


def view(out: Dataset, options: ViewOptions, printing: Logged) -> None:
    """Serve a dataset to a browser on this machine until Ctrl-C: list, tokens, files, numbers."""
    import os
    import threading

    # It gives memory back to the system, which pyarrow's own does not; read when that is loaded.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

    from wmo_distill.errors import extra_missing, stop_says
    from wmo_distill.view.answers import Answers

    answers = Answers(
        out,
        options.datums,
        options.decoder(),
        trusted=options.trust_tokenizer,
        show_secrets=options.show_secrets,
    )
    threading.Thread(target=answers.begin, daemon=True).start()
    try:
        from wmo_distill.view.server import Serving, fragment, serve
    except ImportError as error:
        raise extra_missing("view", "view", error) from None

    def ready(serving: Serving) -> None:
        state = fragment(options.where)
        put(serving.address(state))
        say("wmo-distill: serving on this machine alone; the address holds its key; Ctrl-C ends it")
        if options.open and _has_display():
            import webbrowser

            webbrowser.open(serving.address(state, once=True))

    with stop_says(lambda: "the dataset was only read"):
        serve(answers, options.port, ready)


def _has_display() -> bool:
    """Whether a person at a terminal sees what a browser opens."""
    import os
    import sys

    shown = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return shown and sys.stdout.isatty()

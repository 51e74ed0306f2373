"""`wmo-distill` with several parts of everything, though there is little to write."""

from tests.outputs.works import small
from wmo_distill.cli.app import main
from wmo_distill.pipeline.build import build_with
from wmo_distill.pipeline.reading import Limits

if __name__ == "__main__":
    small()
    (build_with.__kwdefaults__ or {})["limits"] = Limits(part_bytes=3000, part_trials=3)
    main()

"""`python -m wmo_distill` is the command `wmo-distill`."""

from wmo_distill.cli.app import main

if __name__ == "__main__":
    main()

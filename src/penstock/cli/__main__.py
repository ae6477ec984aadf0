"""`python -m penstock.cli`, for a checkout whose scripts are not on the path."""

from penstock.cli.program import main

main()

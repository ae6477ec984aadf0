"""Every verb as a function that returns a Command, for use with your own driver.

This is the public name of `penstock.commands.write`.
"""

from penstock.commands.write import *  # noqa: F403
from penstock.commands.write import __all__ as __all__

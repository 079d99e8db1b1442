"""`python -m workbench.protocol` prints the TypeScript."""

from .typescript import typescript

print(typescript(), end="")

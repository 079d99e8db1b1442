"""Parse a small Markdown and a small TeX into trees; no input can become markup of a page.

Blocks: headings, paragraphs, lists, fenced code. Inline: **bold**, *italic*, `code`, $formula$. Everything else stays text.
"""

from __future__ import annotations

import re

from ..protocol import Formula

# As in CommonMark and Pandoc, delimiters do not enclose outer spaces: "$5 and $6" is not a formula, "2 * 3 * 4" has no italics.
_INLINE = re.compile(
    r"(`+)(?P<code>.+?)\1|\$(?=\S)(?P<math>[^$\n]+?)(?<=\S)\$(?!\d)|\*\*(?=\S)(?P<b>.+?)(?<=\S)\*\*"
    r"|(?<![\w*])\*(?=\S)(?P<i>[^*\n]+?)(?<=\S)\*(?![\w*])"
)
_ITEM = re.compile(r"\s*(?:[-*+]|(\d+)[.)])\s+(.*)")
LONGEST = 100_000  # characters of one text


def blocks(text: str) -> list[Formula]:
    """The text as blocks: ["h", ...], ["p", ...], ["ul", ["li", ...], ...], ["ol", ...], ["pre", "code"].

    Raises TypeError if it is not text, ValueError for more than 100,000 characters.
    """
    if not isinstance(text, str):
        raise TypeError(f"A lesson's text is a string of Markdown; got {type(text).__name__}")
    if len(text) > LONGEST:
        raise ValueError(f"A page of {len(text):,} characters is too long; at most {LONGEST:,}")
    found: list[Formula] = []
    lines: list[str] = []

    def end() -> None:
        if lines:
            found.append(["p", *inline(" ".join(lines))])
            lines.clear()

    rest = iter(_undented(text))
    for line in rest:
        item, stripped = _ITEM.fullmatch(line), line.strip()
        if stripped.startswith("```"):
            end()
            code = []
            for inner in rest:
                if inner.strip() == "```":
                    break
                code.append(inner)
            found.append(["pre", "\n".join(code)])
        elif not stripped:
            end()
        elif re.match(r"#{1,6}\s", stripped):
            end()
            found.append(["h", *inline(stripped.lstrip("#").strip())])
        elif item is not None:
            end()
            kind = "ol" if item[1] else "ul"
            if not found or found[-1][0] != kind:
                found.append([kind])
            found[-1].append(["li", *inline(item[2])])
        elif found and found[-1][0] in ("ul", "ol") and line.startswith("  ") and not lines:
            found[-1][-1] += [" ", *inline(stripped)]
        else:
            lines.append(stripped)
    end()
    return found


def _undented(text: str) -> list[str]:
    """Remove the common indentation of all lines but the first, as of a string inside a call."""
    lines = text.expandtabs(4).splitlines()
    depth = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    return [line if not at else line[depth:] for at, line in enumerate(lines)]


def inline(text: str) -> list:
    """The parts of a line: text, ["b", ...], ["i", ...], ["code", text], ["math", formula]."""
    parts: list = []
    at = 0
    for found in _INLINE.finditer(text):
        if found.start() > at:
            parts.append(text[at : found.start()])
        if found["code"] is not None:
            parts.append(["code", found["code"]])
        elif found["math"] is not None:
            parts.append(["math", formula(found["math"])])
        else:
            tag = "b" if found["b"] is not None else "i"
            parts.append([tag, *inline(found[tag])])
        at = found.end()
    if at < len(text):
        parts.append(text[at:])
    return parts


def plain(tree: Formula | str) -> str:
    """A tree as text, for terminals and screen readers."""
    if isinstance(tree, str):
        return tree
    tag, *children = tree
    inside = [plain(child) for child in children]
    if tag in ("ul", "ol"):
        return "\n".join(f"{f'{n}.' if tag == 'ol' else '·'} {one}" for n, one in enumerate(inside, 1))
    if tag == "mfrac":
        return f"({inside[0]})/({inside[1]})"
    if tag in ("msup", "msub"):
        return f"{inside[0]}{'^' if tag == 'msup' else '_'}{inside[1]}"
    if tag == "msubsup":
        return f"{inside[0]}_{inside[1]}^{inside[2]}"
    if tag == "msqrt":
        return f"√({''.join(inside)})"
    if tag == "mover" and len(inside[0]) == 1:
        return inside[0] + _OVER.get(inside[1], inside[1])
    return "".join(inside)


# -- formulas ------------------------------------------------------------------------------------------------------------------

_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ", "kappa": "κ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "chi": "χ", "psi": "ψ",
    "omega": "ω", "Delta": "Δ", "Gamma": "Γ", "Theta": "Θ", "Lambda": "Λ", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "ell": "ℓ",
}  # fmt: skip
_SIGNS = {
    "cdot": "·", "times": "×", "odot": "⊙", "otimes": "⊗", "partial": "∂", "nabla": "∇", "sum": "∑", "prod": "∏", "int": "∫", "to": "→",
    "rightarrow": "→", "leftarrow": "←", "mapsto": "↦", "approx": "≈", "neq": "≠", "ne": "≠", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥",
    "pm": "±", "infty": "∞", "in": "∈", "ldots": "…", "dots": "…", "cdots": "⋯", "mid": "|", "lVert": "‖", "rVert": "‖", "|": "‖",
    "top": "⊤", "langle": "⟨", "rangle": "⟩", "sim": "∼", "propto": "∝", "equiv": "≡", "circ": "∘", "ast": "∗",
    "{": "{", "}": "}", "%": "%", "_": "_", "$": "$", "&": "&", "#": "#",
}  # fmt: skip
_OVER = {"¯": "\u0304", "^": "\u0302", "˙": "\u0307", "~": "\u0303", "→": "\u20d7"}  # the accents as combining characters
_ACCENTS = {"bar": "¯", "hat": "^", "dot": "˙", "tilde": "~", "vec": "→"}
_WORDS = {"exp", "log", "ln", "sin", "cos", "tan", "tanh", "max", "min", "softmax"}
_TOKEN = re.compile(r"\\(?:[A-Za-z]+|.)|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
DEEPEST = 40


def formula(text: str) -> Formula:
    r"""Parse a subset of TeX: a^2, x_{ij}, \frac{a}{b}, \sqrt{x}, \bar{x}, \text{...}, Greek letters, \cdot, \partial, \sum, ...

    An unknown command stays as it was typed.
    """
    return ["mrow", *_row(_TOKEN.findall(text), 0, None)]


def _row(tokens: list[str], depth: int, until: str | None) -> list[Formula]:
    parts: list[Formula] = []
    while tokens:
        if tokens[0] == until:
            tokens.pop(0)
            break
        if tokens[0].isspace():
            tokens.pop(0)
        elif tokens[0] in "^_" and len(tokens[0]) == 1:
            kind = "msup" if tokens.pop(0) == "^" else "msub"
            base = parts.pop() if parts else ["mrow"]
            script = _one(tokens, depth)
            other = {"msup": "msub", "msub": "msup"}[kind]
            if base[0] == other and base[-1] != ["mrow"]:
                low, high = (base[2], script) if other == "msub" else (script, base[2])
                parts.append(["msubsup", base[1], low, high])
            else:
                parts.append([kind, base, script])
        else:
            parts.append(_one(tokens, depth))
    return parts


def _one(tokens: list[str], depth: int) -> Formula:
    while tokens and tokens[0].isspace():
        tokens.pop(0)
    if not tokens or depth > DEEPEST:
        rest = "".join(tokens)
        tokens.clear()
        return ["mtext", rest] if rest else ["mrow"]
    token = tokens.pop(0)
    if token == "{":
        return ["mrow", *_row(tokens, depth + 1, "}")]
    if token[0] == "\\" and len(token) > 1:
        return _command(token[1:], tokens, depth)
    if token[0].isdigit():
        return ["mn", token]
    if token.isalpha():
        return ["mi", token]
    return ["mo", {"-": "−", "*": "·", "'": "′"}.get(token, token)]


def _numerator(tokens: list[str], depth: int) -> Formula:
    r"""The numerator of a fraction; only the 1 of \frac12, as in TeX."""
    while tokens and tokens[0].isspace():
        tokens.pop(0)
    if tokens and tokens[0].isdigit() and len(tokens[0]) > 1:
        digits = tokens.pop(0)
        tokens.insert(0, digits[1:])
        return ["mn", digits[0]]
    return _one(tokens, depth + 1)


def _words(tokens: list[str]) -> str:
    r"""The text in the braces of a \text{...}, as it was typed, or the single token after it."""
    words, depth = [], 0
    while tokens:
        token = tokens.pop(0)
        depth += (token == "{") - (token == "}")
        if token not in ("{", "}") and (depth or not token.isspace()):
            words.append(_SIGNS.get(token[1:], token) if token[0] == "\\" else token)
        if not depth and not token.isspace():
            break
    return "".join(words)


def _command(name: str, tokens: list[str], depth: int) -> Formula:
    if name in ("frac", "dfrac", "tfrac"):
        above = _numerator(tokens, depth)
        return ["mfrac", above, _one(tokens, depth + 1)]
    if name == "sqrt":
        return ["msqrt", _one(tokens, depth + 1)]
    if name in _ACCENTS:
        return ["mover", _one(tokens, depth + 1), ["mo", _ACCENTS[name]]]
    if name in ("text", "mathrm", "operatorname", "mathbf", "mathit"):
        return ["mtext", _words(tokens)]
    if name in ("left", "right", "big", "Big"):
        return _one(tokens, depth)
    if name in _GREEK:
        return ["mi", _GREEK[name]]
    if name in _SIGNS:
        return ["mo", _SIGNS[name]]
    if name in _WORDS:
        return ["mi", name]
    if name in (",", ";", ":", " ", "quad", "qquad", "!"):
        return ["mspace"]
    return ["mtext", f"\\{name}"]

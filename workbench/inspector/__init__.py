"""Inspection of one tensor: statistics, histogram, pictures, memory layout, facts, and the reason why its gradient is missing."""

from .header import facts
from .heat_map import CHOOSE, NONE, Look, heat
from .images import image, layouts
from .memory_layout import storage
from .numbers import BINS, histogram, host, library, summary, whole
from .reasons import NO_NUMBERS, NOT_YET, why_no_grad, written_over
from .text import FEW, bytes_text, count_text, number_text, plain_values, sentence, shape_text
from .vocabulary import Vocabulary, is_attention, tokens

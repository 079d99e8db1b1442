"""Inspection of one tensor: statistics, histogram, pictures, memory layout and facts."""

from .header import facts
from .heat_map import CHOOSE, NONE, Look, heat
from .images import image, layouts
from .memory_layout import storage
from .numbers import host, library, whole
from .statistics import BINS, capturing, histogram, on_gpu, summaries, summary
from .text import FEW, NO_NUMBERS, NOT_YET, bytes_text, count_text, number_text, plain_values, sentence, shape_text
from .vocabulary import Vocabulary, is_attention, tokens

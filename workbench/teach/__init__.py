"""Teaching, independent of Jupyter: narrated lessons, questions about live tensors, seeded bugs, and forward against reverse mode."""

from .ask import follow, lesson, level, modes, present, quiz
from .grading import grade
from .lessons import Say as say
from .roster import roster
from .seeded import sabotage

__all__ = ["follow", "grade", "lesson", "level", "modes", "present", "quiz", "roster", "sabotage", "say"]

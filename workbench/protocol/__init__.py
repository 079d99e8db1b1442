"""Every message between kernel and view, as a frozen dataclass. `python -m workbench.protocol` prints the TypeScript.

A message is plain JSON with the keys of its dataclass plus `type` (the class's `kind`) and `v` (VERSION). Large numeric arrays are sent
beside the JSON as binary buffers; a `Buffer` gives the index of one, its dtype and its shape. Every text is data: the view inserts it as a
text node, never as markup. Formulas are trees of MathML tags for the same reason.

Each module covers one subject; everything defined in these modules is part of the protocol.
"""

from .base import VERSION, Buffer, Fact, Formula, Message, Rules, Site, Together, ToKernel, ToView
from .breakpoints import Break, Breakpoint, Breakpoints
from .checks import AskFindings, Finding, Findings, Operand
from .compare import AskCompare, Compared, Difference, Pinned
from .export import AskExport, Exported
from .faces import AskFaces, Faces, NodeFace
from .flags import AskMetric, CellRun, CellRuns, Flag, Flags, Metric
from .graph import Edges, Graph, Group, InSidePanel, Level, LevelName, Nodes, Problem, Ready, ToSidePanel, View
from .memory import (
    AskBytes,
    AskMemory,
    AskMoment,
    AskPredictions,
    AskWhy,
    AskWindow,
    Bytes,
    Chain,
    DeviceBytes,
    Gpu,
    Holding,
    Line,
    Memory,
    Moment,
    Prediction,
    Predictions,
    Saver,
    Share,
    Span,
    Total,
    Why,
    Window,
)  # fmt: skip
from .model import ActivationRow, AskModel, AskSampleGradients, ModelHealth, ParameterRow, SampleGradients
from .ranks import AskRank, Ranks
from .read import BadMessage, Postponed, Refused, read
from .series import AskSeries, Series, TensorSeries
from .steps import AskNorms, Contribution, Norms, Offer, Step, Stepped, Stepper, StepTo
from .teach import AnswerQuestion, Cost, Lesson, Mode, ModePass, Modes, ModeStep, Page, Question, QuestionKind, TurnPage
from .tensor import (
    AskElement,
    Heat,
    Histogram,
    ImageGrid,
    Inspect,
    Inspected,
    MemoryLayout,
    Sharer,
    Summary,
    TensorElement,
    Tokens,
)
from .time import AskTiming, TimeTotal, Timing
from .training import Train, Training
from .typescript import typescript
from .whatif import (
    Addend,
    AskEdit,
    AskFanOut,
    AskLocal,
    AskPaths,
    AskSlopes,
    Beside,
    Checked,
    CheckedInput,
    CheckRule,
    Editable,
    Edited,
    FanOut,
    ForkPart,
    ForkPass,
    Forks,
    Local,
    LocalPart,
    PathPart,
    Paths,
    Picture,
    Reran,
    Rerun,
    Slopes,
    SubStep,
    Term,
)

// All panes of the side panel, in the order of their tabs.

import { ChecksPane } from "./checks";
import { ComparePane } from "./compare";
import { LessonPane } from "./lesson";
import { MemoryPane } from "./memory";
import { ModelPane } from "./model";
import type { Pane, PaneContext } from "./pane";
import { StepPane } from "./step";
import { TensorPane } from "./tensor";
import { TimePane } from "./time";

export const PANES: readonly ((context: PaneContext) => Pane)[] = [
  (context) => new LessonPane(context),
  (context) => new StepPane(context),
  (context) => new TensorPane(context, "value", "Value"),
  (context) => new TensorPane(context, "grad", "Grad"),
  (context) => new ChecksPane(context),
  (context) => new ComparePane(context),
  (context) => new ModelPane(context),
  (context) => new MemoryPane(context),
  (context) => new TimePane(context),
];

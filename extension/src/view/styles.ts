// All style sheets of the view, as one string.

import scene from "./graph/scene.css";
import checks from "./panes/checks.css";
import time from "./panes/time.css";
import tensor from "./panes/tensor.css";
import step from "./panes/step.css";
import stepper from "./stepper.css";
import lesson from "./panes/lesson.css";
import memory from "./panes/memory.css";
import parts from "./parts.css";
import save from "./save.css";
import presenter from "./presenter.css";
import tour from "./tour.css";
import view from "./view.css";

export const STYLES = [view, parts, stepper, scene, save, step, time, tensor, memory, lesson, checks, presenter, tour].join("\n");

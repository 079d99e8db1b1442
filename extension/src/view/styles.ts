// Every style sheet of the view, in one text.

import scene from "./graph/scene.css";
import tensor from "./panes/tensor.css";
import time from "./panes/time.css";
import stepper from "./stepper.css";
import view from "./view.css";

export const STYLES = [view, stepper, scene, time, tensor].join("\n");

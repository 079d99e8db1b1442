// Every style sheet of the view, in one text.

import scene from "./graph/scene.css";
import view from "./view.css";

export const STYLES = [view, scene].join("\n");

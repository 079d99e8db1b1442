// The workbench's icon: two nodes and the one that they flow into.

import { LabIcon } from "@jupyterlab/ui-components";
import svgstr from "./icon.svg";

export const icon = new LabIcon({ name: "gradient-workbench:icon", svgstr });

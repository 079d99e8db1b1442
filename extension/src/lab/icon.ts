// The workbench's icon: two nodes with edges to a third.

import { LabIcon } from "@jupyterlab/ui-components";
import svgstr from "./icon.svg";

export const icon = new LabIcon({ name: "gradient-workbench:icon", svgstr });

// The notebook that opens a flight file: the first cell shows it, the second one is prepared for the user.

const UNKNOWN = 'repeat(program="train.py")'; // until the file says which program it was
const KEY = "gradient-workbench"; // in the metadata of outputs

interface KernelSpec {
  name: string;
  display_name: string;
  language: string;
}

/** A notebook for the file of that name in the same folder. Without a kernel, JupyterLab asks for one. */
export function notebookOf(file: string, kernelspec: KernelSpec | undefined): object {
  const cell = (id: string, source: string) => ({ cell_type: "code", id, metadata: {}, execution_count: null, outputs: [], source });
  // A string of JSON is one of Python: both know its escapes, and nothing else than control characters, quotes and lone surrogates is escaped.
  const open = `import workbench as wb\n\nflight = wb.open(${JSON.stringify(file)})\nflight`;
  return {
    nbformat: 4,
    nbformat_minor: 5,
    metadata: kernelspec ? { kernelspec: { name: kernelspec.name, display_name: kernelspec.display_name, language: kernelspec.language } } : {},
    cells: [cell("open", open), cell("repeat", prepared(UNKNOWN))],
  };
}

/** The second cell, with the call that repeats a step. */
export function prepared(call = UNKNOWN): string {
  return `# Repeats the step and shows what it computed. program: the script that was run, or the function that trains.\nflight.${call}`;
}

/** The call that repeats a step, as the outputs of the first cell have it; undefined if the file could not be opened. */
export function callIn(outputs: readonly object[]): string | undefined {
  for (const output of outputs as { metadata?: Record<string, { next?: unknown }> }[]) {
    const said = output.metadata?.[KEY]?.next;
    if (typeof said === "string") return said;
  }
  return undefined;
}

/** The default kernel if it runs Python, else the first one that does. */
export function pythonOf(specs: { default: string; kernelspecs: Record<string, KernelSpec | undefined> } | null): KernelSpec | undefined {
  if (!specs) return undefined;
  return [specs.kernelspecs[specs.default], ...Object.values(specs.kernelspecs)].find((spec) => spec?.language === "python");
}

// The notebook that opens a flight file: its cells, its kernel, and what the outputs of the first cell say about the second.
import { describe, expect, it } from "vitest";
import { callIn, notebookOf, prepared, pythonOf } from "../src/lab/flightNotebook";

const spec = (name: string, language: string) => ({ name, language, display_name: name.toUpperCase() });
const cellsOf = (file: string) => (notebookOf(file, undefined) as { cells: { source: string }[] }).cells.map(({ source }) => source);

describe("the notebook of a flight file", () => {
  it("opens the file in the first cell, and repeats the step in the second", () => {
    const [open, repeat] = cellsOf("run.flight");
    expect(open).toBe('import workbench as wb\n\nflight = wb.open("run.flight")\nflight');
    expect(repeat).toBe(prepared());
    expect(repeat!.split("\n")).toHaveLength(2);
    expect(repeat!.split("\n")[1]).toBe('flight.repeat(program="train.py")');
  });
  it("has the name of the file as a string of Python, whatever it contains", () => {
    const [open] = cellsOf('a"\\\n\')\u0000import os#\u{1f6e9}.flight');
    expect(open!.split("\n")[2]).toBe(String.raw`flight = wb.open("a\"\\\n')\u0000import os#` + '\u{1f6e9}.flight")');
  });
  it("has the kernel that is given, and asks for one without", () => {
    expect(notebookOf("run.flight", spec("python3", "python"))).toMatchObject({
      metadata: { kernelspec: { name: "python3", display_name: "PYTHON3", language: "python" } },
    });
    expect(notebookOf("run.flight", undefined)).toMatchObject({ metadata: {} });
  });
});

describe("the kernel", () => {
  it("is the default one if it runs Python, else the first that does", () => {
    const kernelspecs = { r: spec("r", "R"), other: spec("other", "python"), python3: spec("python3", "python") };
    expect(pythonOf({ default: "python3", kernelspecs })?.name).toBe("python3");
    expect(pythonOf({ default: "r", kernelspecs })?.name).toBe("other");
    expect(pythonOf({ default: "r", kernelspecs: { r: spec("r", "R") } })).toBeUndefined();
    expect(pythonOf(null)).toBeUndefined();
  });
});

describe("the call that repeats the step", () => {
  it("is what the opened file says in its output", () => {
    const said = { output_type: "execute_result", metadata: { "gradient-workbench": { next: "repeat(program='fit.py')" } } };
    expect(callIn([{ output_type: "stream" }, said])).toBe("repeat(program='fit.py')");
    expect(prepared(callIn([said])).split("\n")[1]).toBe("flight.repeat(program='fit.py')");
  });
  it("is unknown after an error, or if the output says something else", () => {
    expect(callIn([{ output_type: "error" }])).toBeUndefined();
    expect(callIn([{ metadata: {} }, { metadata: { "gradient-workbench": { next: 1 } } }])).toBeUndefined();
  });
});

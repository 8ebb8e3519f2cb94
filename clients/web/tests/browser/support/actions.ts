/** Pointer steps and keys as W3C WebDriver and WebDriver BiDi take them: one source of actions. */
import { type Json, NAMED_KEYS, type Step, type Tool } from "./browser.ts";

/**
 * The actions of one call. `whole` rounds to whole pixels, for drivers that take no others. The pointer keeps its
 * state between calls, so that a stroke may be told in parts.
 */
export function pointerActions(tool: Tool, steps: readonly Step[], whole: boolean): Json[] {
  const place = (value: number) => (whole ? Math.round(value) : value);
  const action = (step: Step): Json => {
    if (step.kind === "up") return { type: "pointerUp", button: 0 };
    const pressure = tool === "pen" ? { pressure: step.pressure } : {};
    if (step.kind === "down") return { type: "pointerDown", button: 0, ...pressure };
    return { type: "pointerMove", x: place(step.x), y: place(step.y), duration: 0, ...pressure };
  };
  const actions = steps.map(action);
  return [{ type: "pointer", id: tool, parameters: { pointerType: tool }, actions }];
}

/** Keys that go down one after the other, and up again the other way round. */
export function keyActions(keys: readonly string[]): Json[] {
  const values = keys.map((key) => NAMED_KEYS[key] ?? key);
  const down = values.map((value): Json => ({ type: "keyDown", value }));
  const up = values.map((value): Json => ({ type: "keyUp", value })).reverse();
  return [{ type: "key", id: "keyboard", actions: [...down, ...up] }];
}

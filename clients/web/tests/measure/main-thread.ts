/**
 * How long the pages' main threads were taken at a stretch, by their own processor time: what other programs do on a busy
 * machine does not count, and what a throttle takes does.
 */
import type { ChromiumBrowser } from "../browser/support/chromium.ts";
import { inTime } from "../browser/support/wait.ts";

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** Microseconds: when it began, how long it took, and how long of the thread's own time. */
  readonly ts: number;
  readonly dur?: number;
  readonly tdur?: number;
  readonly args: { readonly name?: string };
}

export interface Longest {
  /** Ms of the longest task that ran the page's script for the first time. */
  readonly script: number;
  /** Ms of the longest of all others. */
  readonly other: number;
}

/** Traces all pages of a browser while something goes on. */
export async function longestTasks(browser: ChromiumBrowser, act: () => Promise<void>): Promise<Longest> {
  const devtools = await browser.devtools();
  const events: TraceEvent[] = [];
  devtools.on("Tracing.dataCollected", ({ value }) => {
    // As the trace event format has it.
    for (const event of value) events.push(event as unknown as TraceEvent);
  });
  const includedCategories = ["toplevel", "devtools.timeline", "v8", "__metadata"];
  await devtools.send("Tracing.start", { transferMode: "ReportEvents", traceConfig: { includedCategories } });
  try {
    await act();
  } finally {
    const done = new Promise<void>((resolve) => devtools.once("Tracing.tracingComplete", () => resolve()));
    await devtools.send("Tracing.end");
    await inTime("the trace", done, 60_000);
    await devtools.detach();
  }
  const thread = ({ pid, tid }: TraceEvent) => `${pid} ${tid}`;
  const named = events.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain");
  const mains = new Set(named.map(thread));
  const onMain = events.filter((event) => event.dur !== undefined && mains.has(thread(event)));
  const scripts = onMain.filter(({ name }) => name === "v8.evaluateModule");
  const longest = { script: 0, other: 0 };
  for (const task of onMain.filter(({ name }) => name.endsWith("RunTask"))) {
    const end = task.ts + (task.dur ?? 0);
    const runsScript = scripts.some(
      (one) => thread(one) === thread(task) && one.ts >= task.ts && one.ts < end,
    );
    const kind = runsScript ? "script" : "other";
    longest[kind] = Math.max(longest[kind], Math.round((task.tdur ?? 0) / 1000));
  }
  return longest;
}

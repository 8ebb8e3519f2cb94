/** A chart: lines of the last ten minutes, drawn by uPlot, with the numbers of now or of where the pointer is. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { ChartOf } from "./charts.ts";
import { type History, KEPT } from "./history.ts";

const HEIGHT = 132;
/** What a chart spans at least, in seconds. */
const SPAN_MIN = 60;
/** Colours that theme.css has for lines; further lines begin again. */
const COLOURS = 9;

export function Chart(props: {
  readonly chart: ChartOf;
  readonly history: History;
  readonly moment: number;
}) {
  const { chart, history, moment } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const theme = useTheme();
  const tracks = chart.lines.map((line) => line.track).join();
  // Made anew for other lines or colours, and fed below.
  useLayoutEffect(() => {
    const element = host.current;
    if (element === null) return;
    const made = new uPlot(options(chart, element.clientWidth, setHovered), dataOf(chart, history), element);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [tracks, theme]);
  // The history is the same object, and has more at each moment.
  useEffect(() => plot.current?.setData(dataOf(chart, history)), [moment]);
  return (
    <figure class="chart surface">
      <figcaption>{chart.title}</figcaption>
      <ul class="legend">
        {chart.lines.map((line, index) => {
          const track = history.track(line.track);
          const value = hovered === null ? track.at(-1) : track[hovered];
          return (
            <li key={line.track}>
              <i class={`swatch colour-${index % COLOURS}`} />
              {line.name} <b>{value === null || value === undefined ? "–" : chart.format(value)}</b>
            </li>
          );
        })}
      </ul>
      <div ref={host} class="plot" />
    </figure>
  );
}

/** Changes with the system's colours: what is drawn on a canvas does not follow by itself. */
function useTheme(): boolean {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = () => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, [query]);
  return isDark;
}

function dataOf(chart: ChartOf, history: History): uPlot.AlignedData {
  return [history.times, ...chart.lines.map((line) => history.track(line.track))];
}

function options(chart: ChartOf, width: number, hover: (index: number | null) => void): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour("--muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT,
    // On the right there is room for half a time.
    padding: [6, 26, 0, 0],
    legend: { show: false },
    cursor: {
      sync: { key: "all" },
      drag: { x: false, y: false },
      y: false,
      points: { size: 5 },
    },
    hooks: { setCursor: [(plot) => hover(plot.cursor.idx ?? null)] },
    scales: {
      x: { range: (_plot, min, max) => [Math.max(max - KEPT, Math.min(min, max - SPAN_MIN)), max] },
      y: { range: (_plot, _min, max) => [0, chart.most ?? Math.max(chart.least, (max ?? 0) * 1.1)] },
    },
    axes: [
      {
        ...axis,
        space: 72,
        size: 22,
        values: (_plot, times, _axis, _space, step) => times.map((time) => clock(time, step < 60)),
      },
      {
        ...axis,
        space: 28,
        size: 62,
        ...(chart.steps === undefined ? {} : { incrs: chart.steps }),
        values: (_plot, values) => values.map(chart.format),
      },
    ],
    series: [
      {},
      ...chart.lines.map((line, index) => ({
        label: line.name,
        stroke: colour(`--line-${index % COLOURS}`),
        width: index === 0 ? 2 : 1.25,
        spanGaps: chart.title === "Latency",
        points: { show: false },
      })),
    ],
  };
}

/** With seconds where minutes would say the same of several marks. */
function clock(seconds: number, isFine: boolean): string {
  return new Date(seconds * 1000).toTimeString().slice(0, isFine ? 8 : 5);
}

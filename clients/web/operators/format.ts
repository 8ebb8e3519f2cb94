/** Numbers as people read them. */

/** `1,234`, `12.3 k`, `4.5 M`. */
export function count(value: number): string {
  if (value >= 1e6) return `${(value / 1e6).toFixed(value >= 1e7 ? 0 : 1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(value >= 1e5 ? 0 : 1)} k`;
  return value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit++;
  }
  return `${unit === 0 || left >= 100 ? Math.round(left) : left.toFixed(1)} ${units[unit]}`;
}

/** Of 0 to 1. */
export function percent(value: number): string {
  return `${(value * 100).toFixed(value < 0.0995 && value > 0 ? 1 : 0)} %`;
}

/** Of milliseconds. */
export function milliseconds(value: number): string {
  if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
  return `${value >= 100 ? Math.round(value) : value.toFixed(value >= 10 ? 1 : 2)} ms`;
}

/** Of seconds: `3 d 4 h`, `5 min`. */
export function duration(seconds: number): string {
  const parts: readonly (readonly [number, string])[] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const start = parts.findIndex(([size]) => seconds >= size);
  if (start < 0) return "0 s";
  let left = seconds;
  const told = parts.slice(start, start + 2).map(([size, unit]) => {
    const whole = Math.floor(left / size);
    left -= whole * size;
    return `${whole} ${unit}`;
  });
  return told.join(" ");
}

/** How many strokes, in words. */
export function strokes(number: number): string {
  return number === 1 ? "1 stroke" : `${count(number)} strokes`;
}

/** JSON from the relay, read without trust: what is missing or of another kind gets a value that says so. */

export type Fields = { readonly [name: string]: unknown };

/** The members of an object; none of anything else. */
export function fields(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {};
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A finite number, else 0. */
export function number(value: unknown): number {
  return optional(value) ?? 0;
}

/** A finite number, else `null`. */
export function optional(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

export function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

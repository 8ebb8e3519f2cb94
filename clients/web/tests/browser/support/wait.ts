/** Waiting for a state, with a deadline. */

/** Between two looks, in milliseconds. */
const LOOK = 25;
/** How long a state may take that nothing else bounds, in milliseconds. A loaded machine needs seconds. */
export const PATIENCE = 30_000;

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * Looks until there is something other than `undefined` and `false`, and returns it.
 * Throws after `within` milliseconds; `what` completes the sentence "waited in vain until …".
 */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  within: number = PATIENCE,
): Promise<T> {
  const end = Date.now() + within;
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen;
    if (Date.now() >= end) throw new Error(`waited in vain until ${what} (${within} ms)`);
    await sleep(LOOK);
  }
}

/** What a promise says in time. Throws after `within` milliseconds; `what` completes "waited in vain for …". */
export async function inTime<T>(what: string, promise: Promise<T>, within: number = PATIENCE): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain for ${what} (${within} ms)`)), within);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

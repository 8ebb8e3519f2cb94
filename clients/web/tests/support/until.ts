/** Waiting for something to become true. */

/** For what needs no more than a few round trips, on a machine with much else to do; in ms. */
const DEADLINE_MS = 30_000;
const LOOK_MS = 10;

/** Resolves when `is` says so; rejects with what `told` tells when it does not in time. */
export async function until(is: () => boolean, told: () => unknown, deadline = DEADLINE_MS): Promise<void> {
  const end = Date.now() + deadline;
  while (!is()) {
    if (Date.now() > end) throw new Error(`not in time: ${JSON.stringify(told())}`);
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
}

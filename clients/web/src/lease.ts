/** A lease: the right to be the only one, for as long as one says so again and again. */

/** How long a lease lasts that is not renewed, in milliseconds: after a crash nobody else has the identity for so long. */
export const LEASE_MS = 6_000;
/** The same of a tab that nobody sees: browsers run its timers once a minute, or freeze it. */
export const HIDDEN_LEASE_MS = 180_000;
/** How often it is renewed. */
export const RENEW_MS = 2_000;

/** See the module. It stands in the database, and each write of the holder checks it in the same transaction. */
export interface Lease {
  /** A word that only the page that holds it knows; it stays after the lease ended, until somebody else takes it. */
  readonly owner: string;
  /** Until when, by the wall clock, in ms since 1970: the tabs of one machine share that. */
  readonly until: number;
}

/** Whether anybody may take it. One that lasts longer than any can was made before the clock was set back. */
export function isFree(lease: Lease, now: number): boolean {
  return lease.until <= now || lease.until > now + HIDDEN_LEASE_MS;
}

export function renewed(owner: string, now: number, isHidden: boolean): Lease {
  return { owner, until: now + (isHidden ? HIDDEN_LEASE_MS : LEASE_MS) };
}

/** Given back: free from now on, and still known as the owner's. */
export function ended(owner: string): Lease {
  return { owner, until: 0 };
}

/** A word that no other page has. (`crypto.randomUUID` is missing over plain http.) */
export function newOwner(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Orphans: identities whose tabs were closed or crashed with unsent draws. These are posted with their tickets over
 * HTTP, which is idempotent and takes nobody's place.
 */

import { History } from "./history.ts";
import { type Endpoint, REQUEST_TIMEOUT_MS } from "./http.ts";
import type { Identity } from "./identity.ts";
import { LEASE_MS } from "./lease.ts";
import { Outbox, type Refused } from "./outbox.ts";
import { START } from "./position.ts";
import { openSession, Poster } from "./poster.ts";
import { type Ended, type Listener, Session } from "./session.ts";
import type { Storage } from "./storage.ts";

/** How often it is looked for orphans, in ms. */
const LOOK_INTERVAL_MS = 30_000;
/** The second look: a tab that was closed just before this one was opened may hold its lease until then; in ms. */
const SECOND_LOOK_MS = LEASE_MS + 1_000;
/** Orphans that are seen to in one look at most; the next look goes on. */
const ORPHANS_MAX = 64;
/** For all draws of one orphan, in ms; then it is left to the next look. */
const ORPHAN_TIME_MS = 60_000;

/** Posts what orphans of a room left, again and again. */
export class Orphans {
  readonly #endpoint: Endpoint;
  readonly #storage: Storage;
  readonly #room: string;
  readonly #token: () => string | null;
  readonly #closing = new AbortController();
  #looking: Promise<void> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #looks = 0;

  constructor(endpoint: Endpoint, storage: Storage, room: string, token: () => string | null) {
    this.#endpoint = endpoint;
    this.#storage = storage;
    this.#room = room;
    this.#token = token;
  }

  /** Looks now, since there is a server, again when the leases of that moment are over, and from then on every 30 s. */
  look(): void {
    if (this.#closing.signal.aborted || this.#looking !== null) return;
    clearTimeout(this.#timer);
    this.#looking = this.#seeToAll().finally(() => {
      this.#looking = null;
      this.#looks += 1;
      const wait = this.#looks === 1 ? SECOND_LOOK_MS : LOOK_INTERVAL_MS;
      if (!this.#closing.signal.aborted) this.#timer = setTimeout(() => this.look(), wait);
    });
  }

  /** Resolves when all orphans are let go of. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    await this.#looking;
  }

  async #seeToAll(): Promise<void> {
    for (let count = 0; count < ORPHANS_MAX && !this.#closing.signal.aborted; count += 1) {
      const identity = await this.#storage.claimOrphan(this.#room);
      if (identity === null) return;
      const done = await new Orphan(identity, this.#endpoint, this.#token()).post(this.#closing.signal);
      await identity.release();
      // Else the server is not to be had now, and the others would fare no better.
      if (!done) return;
    }
  }
}

/** One of them. */
class Orphan implements Listener {
  readonly #identity: Identity;
  readonly #endpoint: Endpoint;
  readonly #outbox: Outbox;
  readonly #session: Session;
  readonly #history: History;
  readonly #over = new AbortController();
  #isLost = false;
  #onSettled: () => void = () => {};
  #saving: Promise<void> = Promise.resolve();

  constructor(identity: Identity, endpoint: Endpoint, token: string | null) {
    this.#identity = identity;
    this.#endpoint = endpoint;
    this.#outbox = new Outbox(1, identity.saved, performance.now());
    this.#history = new History(identity.saved.history);
    this.#session = new Session(this.#outbox, this, null, token);
    identity.onLost(() => {
      this.#isLost = true;
      this.#over.abort();
    });
  }

  /** Returns whether the store has all now, or refused it. */
  async post(closing: AbortSignal): Promise<boolean> {
    const over = this.#over;
    const end = () => over.abort();
    closing.addEventListener("abort", end);
    const timer = setTimeout(end, ORPHAN_TIME_MS);
    // Once as who it was, and once as a new client where the server knows it no more.
    for (let attempt = 0; attempt < 2 && !over.signal.aborted && this.#outbox.pending > 0; attempt += 1) {
      const ended = (await this.#welcome()) ?? (await this.#postAll());
      this.#session.onDisconnected();
      if (ended?.kind !== "new-client") break;
      this.#session.onNewClient(ended.lost);
    }
    clearTimeout(timer);
    closing.removeEventListener("abort", end);
    if (!this.#isLost) this.#save();
    await this.#saving;
    return !this.#isLost && this.#outbox.pending === 0;
  }

  /** Goes on where it stopped. A session call would show somebody who is not here. */
  async #welcome(): Promise<Ended | null> {
    const { client, ticket } = this.#outbox;
    const now = performance.now();
    if (client === null || ticket === null) {
      const welcome = await openSession(this.#endpoint, this.#session, REQUEST_TIMEOUT_MS, this.#over.signal);
      return "kind" in welcome ? welcome : this.#session.onWelcome(welcome, now);
    }
    const lastN = this.#identity.saved.state?.stored ?? 0;
    const limits = { bytesPerDraw: 0, drawsPerBatch: 0, bytesPerMessage: 0, batchesPerSecond: 0, lastN };
    return this.#session.onWelcome({ client, ticket, position: START, role: 1, limits }, now);
  }

  #postAll(): Promise<Ended | null> {
    return new Promise((resolve) => {
      const round = new AbortController();
      const end = (ended: Ended | null) => {
        round.abort();
        this.#session.sendBy(null);
        this.#over.signal.removeEventListener("abort", stop);
        this.#onSettled = () => {};
        resolve(ended);
      };
      const stop = () => end(null);
      this.#over.signal.addEventListener("abort", stop);
      this.#onSettled = stop;
      const poster = new Poster(this.#endpoint, this.#session, REQUEST_TIMEOUT_MS, round.signal, end);
      this.#session.sendBy(() => poster.send());
      if (this.#over.signal.aborted) stop();
      else this.onOutbox();
    });
  }

  onOutbox(): void {
    this.#save();
    if (this.#outbox.pending === 0) this.#onSettled();
    else this.#session.wake();
  }

  onRefused(refused: readonly Refused[]): void {
    this.#history.onRefused(refused);
  }

  onWelcome(): void {}
  onRecords(): void {}
  onReset(): void {}
  onProgress(): void {}
  onParticipants(): void {}
  onLocked(): void {}
  onPointer(): void {}

  #save(): void {
    const changes = this.#outbox.changes();
    if (changes === null) return;
    this.#saving = this.#identity.save({ ...changes, history: this.#history.state() }).then(
      () => {
        this.#outbox.onPersisted(changes.revision);
        this.#session.wake();
      },
      () => {
        this.#isLost = true;
        this.#over.abort();
      },
    );
  }
}

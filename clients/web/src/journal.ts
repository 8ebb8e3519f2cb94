/** The journal: brings what changes in an outbox and a history into their identity, all that gathered in one go. */
import type { History, HistoryState } from "./history.ts";
import type { Outbox } from "./outbox.ts";
import { type Identity, LeaseLost, type Storage } from "./storage.ts";

/** What the journal tells. */
export interface JournalListener {
  /** More is saved: there may be something to send. */
  onSaved(): void;
  /**
   * Another tab has the identity now, and the outbox has forgotten its client. What was sent over the connection that
   * there is must count for nothing any more: end it before this returns, and open one without a ticket.
   */
  onTakenOver(): void;
}

/** Call {@link Journal.wake} after everything that may have changed the outbox or the history. */
export class Journal {
  readonly #storage: Storage;
  readonly #outbox: Outbox;
  readonly #history: History;
  readonly #listener: JournalListener;
  #identity: Identity;
  #written: HistoryState;
  #running: Promise<void> | null = null;
  #endLost: () => void;
  #closed = false;

  constructor(
    storage: Storage,
    identity: Identity,
    outbox: Outbox,
    history: History,
    listener: JournalListener,
  ) {
    [this.#storage, this.#identity, this.#outbox, this.#history] = [storage, identity, outbox, history];
    this.#listener = listener;
    this.#written = history.state();
    this.#endLost = identity.onLost(() => this.wake());
  }

  /** Saves what changed, soon. While one transaction is under way, what comes gathers for the next. */
  wake(): void {
    if (this.#closed) return;
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
    });
  }

  /**
   * Finds out whether another tab has the identity; then {@link JournalListener.onTakenOver} is called soon. For when
   * the server says that another connection has the ticket (close code 4410).
   */
  async isTakenOver(): Promise<boolean> {
    const identity = this.#identity;
    await identity.renew();
    return identity.isLost;
  }

  /** Saves what is left, and gives the identity back. Nothing may change any more. */
  async close(): Promise<void> {
    this.wake();
    await this.#running;
    this.#closed = true;
    this.#endLost();
    await this.#identity.release();
  }

  async #run(): Promise<void> {
    // Of one task's draws, all go into one transaction.
    await Promise.resolve();
    for (;;) {
      if (this.#identity.isLost) await this.#takeAnother();
      const history = this.#history.state();
      const hasNews = history.done !== this.#written.done || history.undone !== this.#written.undone;
      const changes = hasNews ? this.#outbox.allChanges() : this.#outbox.changes();
      if (changes === null) return;
      try {
        await this.#identity.save({ ...changes, history: hasNews ? history : null });
      } catch (error) {
        if (error instanceof LeaseLost) continue;
        throw error;
      }
      this.#written = history;
      this.#outbox.onPersisted(changes.revision);
      this.#listener.onSaved();
    }
  }

  async #takeAnother(): Promise<void> {
    this.#endLost();
    this.#outbox.onTakenOver();
    this.#listener.onTakenOver();
    this.#written = { done: [], undone: [] };
    this.#identity = await this.#storage.claim(this.#identity.room, true);
    this.#endLost = this.#identity.onLost(() => this.wake());
  }
}
